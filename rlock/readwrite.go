package rlock

import (
	"context"
	"strings"
)

// A ReadWriteLock is a pair of locks of one name: any number of owners may hold
// the read lock at once, one owner holds the write lock, and then nobody else
// holds either. Each of the two is a [Locker], with the contracts of [Lock]. It
// holds no state of any call, and its methods may be called concurrently.
//
// Who holds the write lock may take the read lock as well. If it unlocks the write
// lock first, it goes on as a reader, and others may read at once (a downgrade).
// The other way round is refused with [ErrUpgrade].
//
// The readers of one client are one reader in Redis: only the first to come and
// the last to leave wait for it. Inside a client readers and writers are served
// first come, first served, so that a writer who waits holds back readers who come
// later. For writers who wait elsewhere, the readers of a client hold back after
// [Config.HandoffLimit] more of them, or [Config.HandoffTime]; then a TryLock of
// the read lock may be refused while others read.
//
// It is wire-compatible with Redisson's RReadWriteLock. A name that is used for a
// ReadWriteLock must not be used for a lock of another kind.
type ReadWriteLock struct {
	read  ReadLock
	write WriteLock
}

// A ReadLock is the lock of a [ReadWriteLock] that many owners may hold at once.
// Each owner nests and unlocks for itself. The lease of a fixed lock is its owner's
// alone: when it ends that owner has lost its hold, and others read on.
//
// Redisson's RReadWriteLock.readLock().
type ReadLock struct{ lock }

// A WriteLock is the lock of a [ReadWriteLock] that one owner holds alone. Its
// methods return [ErrUpgrade] to an owner who holds only the read lock.
//
// Redisson's RReadWriteLock.writeLock().
type WriteLock struct{ lock }

var (
	_ Locker = (*ReadLock)(nil)
	_ Locker = (*WriteLock)(nil)
)

// NewReadWriteLock returns the read-write lock of that name. It asks Redis
// nothing, and costs nothing to keep or to throw away: two of one name are the
// same. A name that no lock can have makes every method return [ErrInvalidName].
func (c *Client) NewReadWriteLock(key string) *ReadWriteLock {
	n := c.newName(readWriteKind, key)
	return &ReadWriteLock{
		read:  ReadLock{lock{client: c, name: n, shared: true}},
		write: WriteLock{lock{client: c, name: n}},
	}
}

// ReadLock returns the lock that readers share.
func (l *ReadWriteLock) ReadLock() *ReadLock { return &l.read }

// WriteLock returns the lock that one writer has alone.
func (l *ReadWriteLock) WriteLock() *WriteLock { return &l.write }

// IsLocked asks Redis whether anybody reads: that includes a writer who has taken
// the read lock as well. The answer may be out of date when it arrives.
//
// Redisson's isLocked().
func (l *ReadLock) IsLocked(ctx context.Context) (bool, error) {
	fields, err := l.client.fields(ctx, l.name)
	return len(readersOf(fields)) > 0, err
}

// IsLocked asks Redis whether anybody writes. The answer may be out of date when it
// arrives.
//
// Redisson's isLocked().
func (l *WriteLock) IsLocked(ctx context.Context) (bool, error) {
	fields, err := l.client.fields(ctx, l.name)
	return len(writersOf(fields)) > 0, err
}

// readWrite is the kind of [ReadWriteLock]: a hash of the mode, the readers and
// the writer, and a key for each reader that lives as long as its lease.
type readWrite struct{}

const (
	modeField   = "mode"
	writeSuffix = ":write"
)

func (readWrite) acquire(t *tenure, news news) call {
	mode, n := "write", t.room.name
	switch {
	case t.shared:
		mode = "read"
	case news.waits:
		mode = "await"
	}
	return rwAcquireScript.brief(2, n.key, n.tagged, t.room.client.milliseconds(t.lease), t.text, mode)
}

func (readWrite) mirror(c *Client, part []sent) call {
	keys := make([]string, 0, 3*len(part))
	args := make([]string, 0, 2+5*len(part))
	args = append(args, c.numsub, c.publish)
	for _, s := range part {
		n := s.tenure.room.name
		keys = append(keys, n.key, n.tagged, n.channel)
		args = append(args, s.lease, s.owner, s.count, flag(s.reads), flag(s.channel != ""))
	}
	return call{script: rwMirrorScript, keys: keys, args: args}
}

func flag(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

func (readWrite) release(c *Client, n *name, owner string, _ news) call {
	return rwReleaseScript.brief(3, n.key, n.tagged, n.channel, owner, c.publish)
}

func (readWrite) channel() string { return "redisson_rwlock:" }

// holders returns the readers only while nobody writes, as Redisson's
// forceUnlockAsync.
func (readWrite) holders(fields []string, shared bool) []string {
	writers := writersOf(fields)
	if shared && len(writers) == 0 {
		return readersOf(fields)
	}
	if shared {
		return nil
	}
	return writers
}

func readersOf(fields []string) (owners []string) {
	for _, field := range fields {
		if field != modeField && !strings.HasSuffix(field, writeSuffix) {
			owners = append(owners, field)
		}
	}
	return owners
}

func writersOf(fields []string) (owners []string) {
	for _, field := range fields {
		if owner, ok := strings.CutSuffix(field, writeSuffix); ok {
			owners = append(owners, owner)
		}
	}
	return owners
}
