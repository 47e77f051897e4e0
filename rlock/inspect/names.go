package inspect

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// scanCount is the number of keys that a server looks at for one page of Inspector.Locks.
const scanCount = 512

// heldKeys iterates over the keys of the held locks that match the pattern. An error is the last
// value, after the names on the other nodes.
func heldKeys(ctx context.Context, r *wire.Redis, pattern string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		err := r.AwaitConnection(ctx, nil)
		if err == nil {
			err = r.AtPrimary(ctx)
		}
		if err != nil {
			yield("", wire.ExplainTo(ctx, err))
			return
		}
		var failed error
		for _, node := range r.EachNode() {
			for name, err := range scan(ctx, r, node, pattern) {
				if err != nil {
					failed = errors.Join(failed, wire.ExplainTo(ctx, err))
				} else if !yield(name, nil) {
					return
				}
			}
		}
		if failed != nil {
			yield("", failed)
		}
	}
}

// scan iterates over the names on one node. An error is the last value.
func scan(ctx context.Context, r *wire.Redis, node rueidis.Client, pattern string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if r.InCluster() {
			hello, err := wire.Promptly(ctx, r, 0, func(ctx context.Context) (map[string]string, error) { return r.Hello(ctx, node) })
			if err != nil {
				yield("", err)
			}
			if hello["role"] != "master" {
				return
			}
		}
		for _, of := range keyTypes {
			for cursor, more := uint64(0), true; more; more = cursor != 0 {
				names, next, err := page(ctx, r, node, of, pattern, cursor)
				if err != nil {
					yield("", err)
					return
				}
				for _, name := range names {
					if !yield(name, nil) {
						return
					}
				}
				cursor = next
			}
		}
	}
}

// A keyType is a type that the key of a lock may have, with the command that returns some of its
// entries. beside is the one entry that names no owner: the mode of a read-write lock, or the
// counter of a semaphore (wire/scripts/permits.lua).
type keyType struct{ name, sample, beside string }

var keyTypes = [...]keyType{{"hash", "HRANDFIELD", "mode"}, {"zset", "ZRANDMEMBER", "*"}}

// page returns the names of the locks at the cursor, and the next cursor; 0 after the last page.
func page(ctx context.Context, r *wire.Redis, node rueidis.Client, of keyType, pattern string, cursor uint64) (names []string, next uint64, err error) {
	if r.Stopped() {
		return nil, 0, wire.ErrClosed
	}
	found, err := wire.Promptly(ctx, r, 0, func(ctx context.Context) (rueidis.ScanEntry, error) {
		return node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(scanCount).Type(of.name).Build()).AsScanEntry()
	})
	if err == nil {
		names, err = locksAmong(ctx, r, node, of, found.Elements)
	}
	return names, found.Cursor, err
}

// locksAmong returns the keys that are locks. It looks at two entries of each, since one of them
// may be no owner. It omits a key that has gone meanwhile, or that the user may not read.
func locksAmong(ctx context.Context, r *wire.Redis, node rueidis.Client, of keyType, keys []string) (names []string, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	asked := make([]rueidis.Completed, len(keys))
	for i, key := range keys {
		asked[i] = node.B().Arbitrary(of.sample).Keys(key).Args("2").ReadOnly()
	}
	replies, err := wire.Promptly(ctx, r, 0, func(ctx context.Context) ([]rueidis.RedisResult, error) {
		return node.DoMulti(ctx, asked...), nil
	})
	for i, reply := range replies {
		entries, err := reply.AsStrSlice()
		switch {
		case err == nil:
			if of.areOwners(entries) {
				names = append(names, keys[i])
			}
		case !wire.Answered(err):
			return nil, err
		default:
			// Without the right to the command every key fails, without the right to a key only
			// this key.
			if why := wire.Explain(err); errors.Is(why, wire.ErrUnsupported) || errors.Is(why, wire.ErrNoPermission) && strings.Contains(err.Error(), "command") {
				return nil, err
			}
		}
	}
	return names, err
}

// areOwners reports whether the entries of a key, or some of them, are entries of a lock.
func (of keyType) areOwners(entries []string) bool {
	owners := 0
	for _, entry := range entries {
		if wire.IsOwner(entry) {
			owners++
		} else if entry != of.beside {
			return false
		}
	}
	return owners > 0
}
