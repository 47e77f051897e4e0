package rlock

import (
	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/driver"
)

// NewFencedLock returns the fenced lock of that name; like [Client.NewLock] it sends no command.
// Each time that the lock is granted, or handed off inside the process, the new holder has a
// fencing token that is larger than any before, over all processes and over Redisson's
// RFencedLock of that name. A nested lock has the token of the outer one.
//
// A holder that was stopped for longer than its lease may write when it resumes. A resource is
// safe from that if it rejects each token that is less than the largest that it has seen:
//
//	UPDATE orders SET state = ?, token = ? WHERE id = 42 AND token <= ?
//
// If no row was updated, the write was rejected. Tokens begin at 1 and grow, but may skip
// numbers.
//
// The counter is a key of its own, Redisson's "redisson_lock_token:{name}", without a lease. If
// Redis loses it, tokens go back: keep it as safe as the data. The user needs the rights to the
// key, INCRBY and GET. A fenced lock and a plain one of one name exclude each other, but do not
// nest. docs/kinds.md has more.
// It is Redisson's getFencedLock(name).
func (c *Client) NewFencedLock(name string) *Lock {
	return lockOf(c, driver.NewLock(c.driver, client.FencedKind, c.inRedis(name)))
}
