package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A read-write lock is a hash of the mode, the readers and the writer, and a key
// for each reader that lives as long as its lease, as Redisson's RReadWriteLock.
var readWrite = kind{
	public:  KindWrite,
	step:    wire.ReadWriteStep,
	acquire: acquireReadWrite,
	mirror:  mirrorReadWrite,
	holders: readersOrWriters,
	locked:  readOrWritten,
	ttl:     keyTTL,
	layout:  wire.Layout{Channel: "redisson_rwlock:", HasExtra: true, Suffix: "rw"},
	foreign: true,
}

const (
	modeField   = "mode"
	writeSuffix = ":write"
)

func acquireReadWrite(t *tenure) wire.Call {
	mode, n := "write", t.room.name
	if t.shared {
		mode = "read"
	}
	return wire.ReadWriteAcquire.Call(4, n.Key, n.Queue, n.Extra, n.Extra+":"+t.text+":rwlock_timeout:1", t.room.client.milliseconds(t.lease), t.text, mode)
}

func mirrorReadWrite(c *Client, part []sent) wire.Call {
	keys := make([]string, 0, 3*len(part))
	args := make([]string, 0, 1+5*len(part))
	args = append(args, c.Redis.Family())
	var more []string // keys, of those that ask
	for _, s := range part {
		n := s.tenure.room.name
		keys = append(keys, n.Key, n.Extra, n.Channel)
		asks := s.asks(c)
		more = append(more, asks.Keys...)
		args = append(args, s.lease, s.owner, s.count, wire.Flag(s.reads), asks.How)
	}
	keys = append(keys, more...)
	return wire.Call{Script: wire.ReadWriteMirror, Keys: keys, Args: args}
}

// readersOrWriters returns the readers only while nobody writes, as Redisson's
// forceUnlockAsync.
func readersOrWriters(ctx context.Context, l *Lock) ([]string, error) {
	fields, err := fields(ctx, l)
	if l.Shared && len(ownersAmong(fields, false)) > 0 {
		return nil, nil
	}
	return ownersAmong(fields, l.Shared), err
}

func readOrWritten(ctx context.Context, l *Lock) (bool, error) {
	fields, err := fields(ctx, l)
	return len(ownersAmong(fields, l.Shared)) > 0, err
}

// ownersAmong returns those that the fields show to read, or to write.
func ownersAmong(fields []string, read bool) (owners []string) {
	for _, field := range fields {
		owner, writes := strings.CutSuffix(field, writeSuffix)
		if field != modeField && writes != read {
			owners = append(owners, owner)
		}
	}
	return owners
}

func errUpgrade(o Owner) error {
	return fmt.Errorf("owner %s: %w: unlock the read lock first", o, ErrUpgrade)
}
