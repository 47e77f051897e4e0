package rlock

import "github.com/go-rlock/rlock/rlock/internal/driver"

// NewSemaphore returns the semaphore of that name, which up to permits owners hold at once,
// over all clients: a fleet that may open ten connections to a partner takes a permit for
// each. Like [Client.NewLock] it sends no command, and nothing needs to be closed or kept.
//
// Each holder has a lease of its own, a watchdog, and is told of its loss, as of any lock. An
// owner has one permit, however often it locks: to take several in one goroutine use
// [Lock.Acquire], whose handles are owners of their own. Waiters of all clients stand in the
// queue in Redis, each with a ticket, and are served in the order in which they came. A
// permit is never handed off inside a process.
//
// The number of permits may change while clients run: each command carries the number that
// its client was given, so that meanwhile there are no more holders than the largest of them
// allows. A number below 1 makes every method return [ErrInvalidConfig].
//
// [Lock.IsLocked] reports whether all permits are held, and [Lock.TTL] then returns the time
// until the first of them is free unless it is renewed. [Lock.ForceUnlock] frees all permits.
// Leases end by Redis' clock, which must not step; of other locks they end by its timers.
//
// Redisson's RSemaphore and RPermitExpirableSemaphore are other locks, which keep other data
// under their names: they must not share a name with a semaphore of rlock. The user needs the
// right to ZCARD.
func (c *Client) NewSemaphore(name string, permits int) *Lock {
	return lockOf(c, driver.NewSemaphore(c.driver, name, permits))
}
