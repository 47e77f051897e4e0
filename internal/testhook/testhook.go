// Package testhook lets package rlocktest trigger a client's next look at Redis, and see its holds and waits.
// Package rlock sets its functions. No other package uses it.
package testhook

import "github.com/go-rlock/rlock/rlock/inspect"

// A Use is one owner that holds a lock, or waits for it.
type Use struct {
	inspect.Held
	Goroutine uint64 // that has called, 0 if it is not known
	Waits     bool
}

// Uses returns the holds and the waits of client, a *rlock.Client, in the order of their beginning.
var Uses func(client any) []Use

// Look has client, a *rlock.Client, ask Redis now about the lock of that name, of whatever
// kind: whether it still holds it, and where its waiters stand in the queue. By itself it
// asks when a third of Config.Lease has passed since the last renewal, and for a waiter
// every two seconds. Look returns before the answers have come. It may be called
// concurrently.
var Look func(client any, lock string)
