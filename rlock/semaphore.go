package rlock

import "github.com/go-rlock/rlock/rlock/internal/driver"

// NewSemaphore returns the semaphore of that name, which up to permits owners hold at once, over
// all clients: a fleet that may open ten connections to a partner takes a permit for each. Like
// [Client.NewLock] it sends no command.
//
// Each holder has a lease of its own, a watchdog, and is told of its loss, as of any lock. An
// owner has one permit, however often it locks: to take several in one goroutine use
// [Lock.Acquire]. Waiters of all clients are served in the order in which they came; a permit is
// never handed off inside a process.
//
// The number of permits may change while clients run: meanwhile there are no more holders than
// the largest number allows. A number below 1 makes every method return [ErrInvalidConfig].
// Leases end by Redis' clock, which must not step; of other locks they end by its timers.
//
// [Lock.IsLocked] reports whether all permits are held, [Lock.TTL] returns the time until the
// first of them is free unless it is renewed, and [Lock.ForceUnlock] frees all. Redisson's
// semaphores keep other data, and must not share a name with one of rlock. The user needs the
// right to ZCARD.
func (c *Client) NewSemaphore(name string, permits int) *Lock {
	return lockOf(c, driver.NewSemaphore(c.driver, c.inRedis(name), permits))
}
