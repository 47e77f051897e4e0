package rlock

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// scanCount is how many keys a server looks at for one page of Locks.
const scanCount = 512

// Locks iterates over the names of the locks that are held, of any kind and by any
// client, Redisson's included. The names match a pattern of Redis' KEYS ("orders:*"); ""
// matches all. A key counts as a lock if its hash has owners for its fields.
//
// It reads the keyspace in pages (SCAN), of all primaries of a Cluster one after the other,
// so that no server is blocked for long; of a large keyspace it needs many round trips. A
// lock that is held from the beginning of the iteration to its end is among the names, unless
// its slot migrates meanwhile. A name may come twice, as with SCAN. The iteration ends when the
// loop does, and with ctx. An error is the last that it yields, beside an empty name, after the
// names on the other nodes of a Cluster: [ErrNoPermission] without the rights, [ErrUnsupported]
// by a server older than Redis 6.2, [ErrClosed], and that of ctx or of the connection.
//
//	for name, err := range client.Locks(ctx, "orders:*") {
//		if err != nil {
//			return err
//		}
//		fmt.Println(name)
//	}
func (c *Client) Locks(ctx context.Context, pattern string) iter.Seq2[string, error] {
	if pattern == "" {
		pattern = "*"
	}
	return func(yield func(string, error) bool) {
		var failed error
		for _, node := range c.primaries() {
			for name, err := range c.scan(ctx, node, pattern) {
				if err != nil {
					failed = errors.Join(failed, wire.ExplainTo(ctx, err))
				} else if !yield(name, nil) {
					return
				}
			}
		}
		if failed != nil {
			yield("", fmt.Errorf("rlock: list locks %q: %w", pattern, failed))
		}
	}
}

// primaries returns a client for each node that may be one: of a Cluster each node, replicas
// too, else the one server.
func (c *Client) primaries() (nodes []rueidis.Client) {
	if !c.engine.Redis.InCluster() {
		return []rueidis.Client{c.engine.Redis.Client}
	}
	for _, node := range c.engine.Redis.Client.Nodes() {
		nodes = append(nodes, node)
	}
	return nodes
}

// scan iterates over the names on one node. An error is the last that it yields.
func (c *Client) scan(ctx context.Context, node rueidis.Client, pattern string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if c.engine.Redis.InCluster() {
			hello, err := c.engine.Redis.Hello(ctx, node)
			if err != nil {
				yield("", err)
			}
			if hello["role"] != "master" {
				return
			}
		}
		for _, of := range keyTypes {
			for cursor, more := uint64(0), true; more; more = cursor != 0 {
				names, next, err := c.page(ctx, node, of, pattern, cursor)
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

// A keyType is one that a lock may be, with the command that returns some of its owners.
type keyType struct{ name, sample string }

var keyTypes = [...]keyType{{"hash", "HRANDFIELD"}, {"zset", "ZRANDMEMBER"}}

// page returns the names of locks that the cursor leads to, and the next cursor, 0 for none.
func (c *Client) page(ctx context.Context, node rueidis.Client, of keyType, pattern string, cursor uint64) (names []string, next uint64, err error) {
	if c.engine.Closed.Load() {
		return nil, 0, ErrClosed
	}
	within, cancel := c.engine.Redis.Within(ctx)
	defer cancel()
	page, err := node.Do(within, node.B().Scan().Cursor(cursor).Match(pattern).Count(scanCount).Type(of.name).Build()).AsScanEntry()
	if err == nil {
		names, err = c.locksAmong(ctx, node, of, page.Elements)
	}
	return names, page.Cursor, err
}

// locksAmong returns those of the keys that are locks. Two fields tell: a read-write lock has
// one beside its owners. A key that has gone meanwhile, or that the user may not read, is
// left out.
func (c *Client) locksAmong(ctx context.Context, node rueidis.Client, of keyType, keys []string) (names []string, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	ctx, cancel := c.engine.Redis.Within(ctx)
	defer cancel()
	asked := make([]rueidis.Completed, len(keys))
	for i, key := range keys {
		asked[i] = node.B().Arbitrary(of.sample).Keys(key).Args("2").ReadOnly()
	}
	for i, reply := range node.DoMulti(ctx, asked...) {
		fields, err := reply.AsStrSlice()
		switch {
		case err == nil:
			if areOwners(fields) {
				names = append(names, keys[i])
			}
		case !wire.Answered(err):
			return nil, err
		default:
			// A right to the command is missed by every key, one to a key by that key alone.
			if why := wire.Explain(err); errors.Is(why, ErrUnsupported) || errors.Is(why, ErrNoPermission) && strings.Contains(err.Error(), "command") {
				return nil, err
			}
		}
	}
	return names, nil
}

// areOwners reports whether the fields of a hash, or some of them, are those of a lock.
func areOwners(fields []string) bool {
	owners := 0
	for _, field := range fields {
		if wire.IsOwner(field) {
			owners++
		} else if field != "mode" {
			return false
		}
	}
	return owners > 0
}
