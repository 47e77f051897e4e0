package rlock

import (
	"github.com/go-rlock/rlock/rlock/internal/driver"
)

// NewFencedLock returns the fenced lock of that name. Each time that it is granted, or handed off
// inside the process, the new holder has a fencing token that is larger than any before, over all
// processes and over Redisson's RFencedLock of that name (getFencedLock). A nested lock has the token of the outer one.
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
// key, INCRBY and GET. A fenced lock and a plain one of one name exclude each other, but do not nest. docs/kinds.md has
// more.
func (c *Client) NewFencedLock(name string) *Lock {
	return lockOf(c, driver.NewLock(c.driver, driver.FencedKind, c.inRedis(name)))
}

// NewFairLock returns the fair lock of that name. It is granted in the order in which its waiters
// came, over all clients: each waiter has a ticket in the queue in Redis, in place of one for each
// client, and the lock is never handed off inside a process. The order is lost where Redis loses the queue, as in a failover, and a waiter loses
// its place while the client has no connection for its subscriptions.
//
// Redisson's getFairLock() is another lock, with a queue of its own: a fair lock of rlock only
// excludes it, as it does Redisson's RLock.
func (c *Client) NewFairLock(name string) *Lock {
	return lockOf(c, driver.NewLock(c.driver, driver.FairKind, c.inRedis(name)))
}

// NewSemaphore returns the semaphore of that name, which up to permits owners hold at once, over
// all clients: a fleet that may open ten connections to a partner takes a permit for each.
//
// Each holder has a lease of its own. An owner has one permit, or as many as its call took by
// [WithPermits], however often it locks. Waiters of all clients are served in the order in which
// they came; a permit is never handed off inside a process.
//
// The number of permits may change while clients run: meanwhile no more are held than the
// largest number allows. A number below 1 makes every method return [ErrInvalidConfig].
// Leases end by Redis' clock, which must not step; of other locks they end by its timers.
//
// [Lock.IsLocked] reports whether all permits are held, [Lock.TTL] returns the time until the
// first of them is free unless it is renewed, and [Lock.ForceUnlock] frees all. Redisson's
// semaphores keep other data, and must not share a name with one of rlock. The user needs the
// right to ZCARD.
func (c *Client) NewSemaphore(name string, permits int) *Lock {
	return lockOf(c, driver.NewSemaphore(c.driver, c.inRedis(name), permits))
}

// A ReadWriteLock is a pair of locks of one name: any number of owners may hold the read lock at
// once, or one owner holds the write lock, and then no other owner holds either. The holder of
// the write lock may take the read lock as well, and goes on as a reader if it unlocks the write
// lock first. A reader that takes the write lock gets [ErrUpgrade].
//
// Readers and writers of all clients take turns in one queue: readers that come after a waiting
// writer wait behind it. So a reader must not wait for another one that has yet to begin, as with
// [sync.RWMutex]. An owner that reads may always nest. The readers of one client are one reader
// in Redis: only the first to come and the last to leave wait for it.
//
// It is wire-compatible with Redisson's RReadWriteLock, whose readers may starve writers. The
// name must not be used for a lock of another kind. docs/kinds.md has more.
type ReadWriteLock struct {
	reader, writer driver.Lock
	read, write    Lock // made of these
}

// NewReadWriteLock returns the read-write lock of that name.
// It is Redisson's getReadWriteLock(name).
func (c *Client) NewReadWriteLock(name string) *ReadWriteLock {
	l := &ReadWriteLock{writer: driver.NewLock(c.driver, driver.ReadWriteKind, c.inRedis(name))}
	l.reader = l.writer.ForReaders()
	l.read, l.write = Lock{&l.reader, c}, Lock{&l.writer, c}
	return l
}

// Read returns the lock that many owners may hold at once. Each owner nests and unlocks for
// itself, and loses its own hold alone when a fixed lease ends. One attempt may be refused
// without a writer, since one waits.
// It is Redisson's RReadWriteLock.readLock().
func (l *ReadWriteLock) Read() *Lock { return &l.read }

// Write returns the lock that one owner holds alone. Its methods return [ErrUpgrade] to an
// owner that holds only the read lock.
// It is Redisson's RReadWriteLock.writeLock().
func (l *ReadWriteLock) Write() *Lock { return &l.write }
