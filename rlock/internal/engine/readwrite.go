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
	fields:  fields,
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
	return wire.ReadWriteAcquire.Call(4, n.Key, n.Queue, n.Window, n.Extra, t.room.client.milliseconds(t.lease), t.text, mode)
}

func mirrorReadWrite(c *Client, part []sent) wire.Call {
	keys := make([]string, 0, 3*len(part))
	args := make([]string, 0, 1+5*len(part))
	args = append(args, c.Redis.Family())
	for _, s := range part {
		n := s.tenure.room.name
		keys = append(keys, n.Key, n.Extra, n.Channel)
		queue, _ := s.asks()
		args = append(args, s.lease, s.owner, s.count, wire.Flag(s.reads), queue)
	}
	return wire.Call{Script: wire.ReadWriteMirror, Keys: keys, Args: args}
}

// readersOrWriters returns the readers only while nobody writes, as Redisson's
// forceUnlockAsync.
func readersOrWriters(fields []string, shared bool) []string {
	writers := writersOf(fields)
	if shared && len(writers) == 0 {
		return readersOf(fields)
	}
	if shared {
		return nil
	}
	return writers
}

func readOrWritten(ctx context.Context, l *Lock) (bool, error) {
	fields, err := fields(ctx, l.Client, l.Name)
	if l.Shared {
		return len(readersOf(fields)) > 0, err
	}
	return len(writersOf(fields)) > 0, err
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

func errUpgrade(o Owner) error {
	return fmt.Errorf("owner %s: %w: unlock the read lock first", o, ErrUpgrade)
}
