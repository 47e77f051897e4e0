package rlock

import (
	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/driver"
)

// A ReadWriteLock is a pair of locks of one name: any number of owners may hold
// the read lock at once, or one owner holds the write lock, and then no other owner
// holds either. It holds no state of any call, and its methods may be called
// concurrently.
//
// The holder of the write lock may take the read lock as well. If it unlocks the write
// lock first, it goes on as a reader (a downgrade), and other readers may join. A reader that
// takes the write lock (an upgrade) gets [ErrUpgrade].
//
// Readers and writers of all clients take turns in one queue, so that neither starves the
// other: readers that come after a waiting writer wait behind it. So a reader must not wait for
// another one that has yet to begin, in any process: if a writer comes between them all three
// wait for ever, as with [sync.RWMutex]. An owner that reads may always nest.
//
// The readers of one client are one reader in Redis: only the first to come and the last to
// leave wait for it.
//
// It is wire-compatible with Redisson's RReadWriteLock, whose readers may starve writers. A
// name that is used for a ReadWriteLock must not be used for a lock of another kind.
// docs/kinds.md has more.
type ReadWriteLock struct {
	reader, writer driver.Lock
	read, write    Lock // made of these
}

// NewReadWriteLock returns the read-write lock of that name. Like [Client.NewLock] it sends
// no command, and nothing needs to be closed or kept. If the name is invalid, the methods
// of its locks return [ErrInvalidName].
//
// Redisson's getReadWriteLock(name).
func (c *Client) NewReadWriteLock(name string) *ReadWriteLock {
	l := &ReadWriteLock{writer: driver.NewLock(c.driver, client.ReadWriteKind, name)}
	l.reader = l.writer.ForReaders()
	l.read, l.write = Lock{&l.reader, c}, Lock{&l.writer, c}
	return l
}

// Read returns the lock that many owners may hold at once. Each owner nests and unlocks
// for itself. The lease of a fixed lock is its owner's alone: when it ends that owner has
// lost its hold, and others read on. TryLock may be refused without a writer, since one
// waits; so may TryLockFor, and Acquire with [WithWait].
//
// Redisson's RReadWriteLock.readLock().
func (l *ReadWriteLock) Read() *Lock { return &l.read }

// Write returns the lock that one owner holds alone. Its methods return [ErrUpgrade] to an
// owner that holds only the read lock.
//
// Redisson's RReadWriteLock.writeLock().
func (l *ReadWriteLock) Write() *Lock { return &l.write }
