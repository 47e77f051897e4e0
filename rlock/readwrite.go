package rlock

import (
	"github.com/go-rlock/rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/rlock/internal/engine"
)

// A ReadWriteLock is a pair of locks of one name: any number of owners may hold
// the read lock at once, or one owner holds the write lock, and then no other owner
// holds either. It holds no state of any call, and its methods may be called
// concurrently.
//
// The holder of the write lock may take the read lock as well. If it unlocks the write
// lock first, it goes on as a reader (a downgrade). Others in its client may then read at
// once, and others elsewhere when Redis has been told: a round trip later, if it answers.
// A reader that takes the write lock (an upgrade) gets [ErrUpgrade].
//
// The readers of one client are one reader in Redis: only the first to come and
// the last to leave wait for it. Inside a client readers and writers are served
// first come, first served, so that a waiting writer holds back readers that come
// later.
//
// Readers and writers of all clients take turns in the queue in Redis. A waiting writer
// has a ticket there, and clients that begin to read after it wait behind it. A client
// that reads already lets [Config.HandoffLimit] more readers join, or for
// [Config.HandoffTime], whichever ends first. When the last reader has left, the writer
// has the lock; after it, all readers at the front of the queue have it together. So
// neither starves the other. A writer that gives up leaves the queue; one whose process
// died is dropped at its turn. A TryLock of the write lock holds no reader back.
//
// So a reader must not wait for another one that has yet to begin, in any process: if
// a writer comes between them all three wait for ever, as with [sync.RWMutex]. An owner
// that reads may always nest.
//
// # Redisson
//
// It is wire-compatible with Redisson's RReadWriteLock, whose clients know nothing of the
// queue. Redisson's readers may starve any writer, as they do among themselves. Readers
// here do not starve with it: while readers of Redisson have the lock, a waiting writer
// holds back readers here for two seconds, and then they may begin to read for one.
// Redisson's writers have turns in the queue, as every client of Redisson that waits.
//
// A name that is used for a ReadWriteLock must not be used for a lock of another kind.
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
	l := &ReadWriteLock{writer: driver.NewLock(c.driver, engine.ReadWriteKind, name)}
	l.reader = l.writer.ForReaders()
	l.read, l.write = Lock{&l.reader, c}, Lock{&l.writer, c}
	return l
}

// Read returns the lock that many owners may hold at once. Each owner nests and unlocks
// for itself. The lease of a fixed lock is its owner's alone: when it ends that owner has
// lost its hold, and others read on. TryLock may be refused without a writer, since one
// waits; so may TryLockFor and TryAcquire.
//
// Redisson's RReadWriteLock.readLock().
func (l *ReadWriteLock) Read() *Lock { return &l.read }

// Write returns the lock that one owner holds alone. Its methods return [ErrUpgrade] to an
// owner that holds only the read lock.
//
// Redisson's RReadWriteLock.writeLock().
func (l *ReadWriteLock) Write() *Lock { return &l.write }
