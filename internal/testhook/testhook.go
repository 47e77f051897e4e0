// Package testhook lets package rlocktest trigger a client's next look at Redis. Package
// rlock sets its function. No other package uses it.
package testhook

// Look has client, a *rlock.Client, ask Redis now about the lock of that name, of whatever
// kind: whether it still holds it, and where its waiters stand in the queue. By itself it
// asks when a third of Config.Lease has passed since the last renewal, and for a waiter
// every two seconds. Look returns before the answers have come. It may be called
// concurrently.
var Look func(client any, lock string)
