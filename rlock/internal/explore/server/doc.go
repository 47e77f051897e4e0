// Package server is what Redis does to one lock: the scripts of rlock in Go. The explorer runs the
// clients' code against it.
//
// A [Server] has the lock, its queue, and the subscribers. It reads no clock and sends nothing:
// [Server.Do] takes a command and the time, and returns the reply; the messages that the scripts
// publish are left in [Effects].
//
// It follows the scripts step by step, in their order: the two can be read side by side:
//
//	step.go       queue.lua and grant.lua: tickets leave and join, and the lock is granted; guarded writes
//	foreign.go    foreign.lua, and its parts of grant.lua: windows of foreign clients
//	plain.go      acquire.lua, plain.lua, mirror.lua and resume.lua
//	readwrite.go  rw_acquire.lua, rw.lua, rw_mirror.lua and resume.lua
//	semaphore.go  those whose names begin with semaphore
//
// The test TestTheModelIsTheScripts of package wire runs random commands by both and compares the
// replies, the lock, the queue, the marks, the times and the messages. It leaves out keys that hold
// other data, and a server that refuses a command.
//
// A Server is a value. Its slices are never changed in place, so that a copy of the struct is a
// snapshot, and an explorer copies a few words for each state.
package server
