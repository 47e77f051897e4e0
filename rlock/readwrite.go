package rlock

import (
	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/driver"
)

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

// NewReadWriteLock returns the read-write lock of that name. Like [Client.NewLock] it sends no
// command.
// It is Redisson's getReadWriteLock(name).
func (c *Client) NewReadWriteLock(name string) *ReadWriteLock {
	l := &ReadWriteLock{writer: driver.NewLock(c.driver, client.ReadWriteKind, c.inRedis(name))}
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
