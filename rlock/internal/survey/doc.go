// Package survey reads locks in Redis, of whatever client: the state of one (Inspect), and the names of those that are held
// (Locks). It changes nothing, and no lock is taken or released through it: it stands beside package driver, and above wire,
// whose commands and connections it uses.
package survey
