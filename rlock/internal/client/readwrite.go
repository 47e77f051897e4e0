package client

import (
	"context"
	"strings"
)

// A read-write lock is a hash of the mode, the readers and the writer.

const (
	modeField   = "mode"
	writeSuffix = ":write"
)

// readersOrWriters returns the readers only while there is no writer, as Redisson's
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
