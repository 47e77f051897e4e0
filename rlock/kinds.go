package rlock

import (
	"github.com/go-rlock/rlock/rlock/internal/driver"
)

// NewFencedLock returns the fenced lock of that name, Redisson's RFencedLock. With each grant and
// hand-off the holder gets a fencing token that is larger than any before; a nested lock has the
// token of the outer one. A resource is safe from a holder that was stopped past its lease if it
// rejects a token that is less than the largest that it has seen:
//
//	UPDATE orders SET state = ?, token = ? WHERE id = 42 AND token <= ?
//
// Tokens begin at 1, and may skip numbers. Their counter is Redisson's key
// "redisson_lock_token:{name}", without a lease: keep it as safe as the data, since tokens go back
// if Redis loses it. The user needs the rights to it, INCRBY and GET. A fenced lock and a plain one
// of one name exclude each other, but do not nest.
func (c *Client) NewFencedLock(name string) *Lock {
	return lockOf(c, driver.NewLock(c.driver, driver.FencedKind, c.inRedis(name)))
}

// NewFairLock returns the fair lock of that name, which is granted in the order in which its
// waiters came, over all clients: each has a ticket in the queue in Redis, and the lock is never
// handed off inside a process. The order is lost if Redis loses the queue, as in a failover, and a
// waiter loses its place while its client has no connection for subscriptions. Redisson's fair lock
// of the name has a queue of its own: the two only exclude each other.
func (c *Client) NewFairLock(name string) *Lock {
	return lockOf(c, driver.NewLock(c.driver, driver.FairKind, c.inRedis(name)))
}

// NewSemaphore returns the semaphore of that name, which up to permits owners hold at once, over
// all clients, each with a lease of its own. An owner has one permit, or as many as [WithPermits]
// took, however often it locks. Waiters of all clients are served in the order in which they came;
// a permit is never handed off inside a process.
//
// The number may change while clients run: meanwhile no more are held than the largest allows. A
// number below 1 makes every method return [ErrInvalidConfig]. Leases end by Redis' clock, which
// must not step. The user needs the right to ZCARD.
//
// [Lock.IsLocked] reports whether all permits are held, [Lock.TTL] returns the time until the first
// is free unless it is renewed, and [Lock.ForceUnlock] frees all. A semaphore of Redisson must have
// another name.
func (c *Client) NewSemaphore(name string, permits int) *Lock {
	return lockOf(c, driver.NewSemaphore(c.driver, c.inRedis(name), permits))
}

// A ReadWriteLock is a pair of locks of one name: many owners may hold the read lock, or one owner
// the write lock and no other owner either. It is Redisson's RReadWriteLock, and must not share its
// name with a lock of another kind. The holder of the write lock may take the read lock as well,
// and goes on as a reader if it unlocks the write lock first. A reader that takes the write lock
// gets [ErrUpgrade].
//
// Readers and writers of all clients take turns in one queue: readers that come after a waiting
// writer wait behind it. So a reader must not wait for a goroutine that has yet to take the read
// lock, as with [sync.RWMutex]; a reader may always nest. The readers of one client are one reader
// in Redis.
type ReadWriteLock struct {
	reader, writer driver.NamedLock
	read, write    Lock // the locks that Read and Write return
}

// NewReadWriteLock returns the read-write lock of that name.
func (c *Client) NewReadWriteLock(name string) *ReadWriteLock {
	l := &ReadWriteLock{writer: driver.NewLock(c.driver, driver.ReadWriteKind, c.inRedis(name))}
	l.reader = l.writer.ForReaders()
	l.read, l.write = Lock{&l.reader, c}, Lock{&l.writer, c}
	return l
}

// Read returns the lock that many owners may hold at once. Each owner nests, unlocks, and loses its
// hold for itself. A single attempt may be refused while a writer waits.
func (l *ReadWriteLock) Read() *Lock { return &l.read }

// Write returns the lock that one owner holds alone.
func (l *ReadWriteLock) Write() *Lock { return &l.write }
