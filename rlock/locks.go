package rlock

import (
	"context"
	"fmt"
	"iter"
)

// Locks iterates over the names of the locks that are held, of any kind and by any client,
// Redisson's included. The names match a pattern of Redis' KEYS ("orders:*"); "" matches all. It
// reads the keyspace in pages (SCAN), of all primaries of a Cluster. A lock that is held all the
// time is among the names, unless its slot migrates meanwhile; a name may come twice. An error is
// the last that it yields, beside an empty name: [ErrUnsupported] is that of a server older than
// Redis 6.2.
func (c *Client) Locks(ctx context.Context, pattern string) iter.Seq2[string, error] {
	if pattern == "" {
		pattern = "*"
	}
	inRedis := literal.Replace(c.prefix) + pattern
	return func(yield func(string, error) bool) {
		for name, err := range c.shared.Redis.Locks(ctx, inRedis) {
			if err != nil {
				err = fmt.Errorf("rlock: list locks %q: %w", pattern, err)
			}
			if !yield(c.named(name), err) {
				return
			}
		}
	}
}
