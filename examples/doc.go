// Package examples is a set of stories, one folder each. They need no server:
// they bring a Redis of their own, in memory. With REDIS_ADDR set to the address
// of a standalone Redis or Valkey they use that instead, and touch no keys but
// those that begin with "example:".
//
//	go run ./examples/quickstart   a lock, a nested one, a crowd, and a holder that is killed
//	go run ./examples/gear         two machines rewrite one list: without the lock an update is lost
//	go run ./examples/flashsale    1 000 buyers, 100 items: no lock, a lock, a script
//	go run ./examples/longwork     work that outlasts its lease, with the watchdog and without
//	go run ./examples/nested       methods that lock what their caller has locked, across goroutines too
//	go run -C examples/fenced .    a holder is stopped, wakes, and writes: a SQL table refuses its stale token
//	go run ./examples/migrate      each call of Redisson's RLock beside the Go that replaces it
//	go run ./examples/tick         a job that runs once per tick on one of five replicas
//	go run ./examples/leader       a leader that works until it loses the lock
//	go run ./examples/handler      an HTTP handler with a limit on the wait: 200, 409, 500
//	go run ./examples/sticky       a lock for each user, which lingers at the replica that serves the user
//	go run ./examples/shutdown     a process that ends and leaves no lock behind
//
// One is a module of its own, since it needs a database. Fenced locks leave the
// counters of their tokens in Redis; the example deletes its own.
//
// Each checks what it claims, and exits with a status other than 0 if it was not
// so. The tests of this package run them all.
package examples
