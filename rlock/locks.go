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

// Locks iterates over the names of the locks that are held, of any kind and by whatever
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
			more, err := c.scan(ctx, node, pattern, func(name string) bool { return yield(name, nil) })
			switch {
			case err != nil:
				_, err = wire.Diagnose(err)
				failed = errors.Join(failed, err)
			case !more:
				return
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

// scan yields the names of one node. more is false if the caller has had enough.
func (c *Client) scan(ctx context.Context, node rueidis.Client, pattern string, yield func(name string) bool) (more bool, err error) {
	if c.engine.Redis.InCluster() {
		if primary, err := c.isPrimary(ctx, node); err != nil || !primary {
			return err == nil, err
		}
	}
	for _, of := range keyTypes {
		if more, err = c.scanType(ctx, node, of, pattern, yield); err != nil || !more {
			return more, err
		}
	}
	return true, nil
}

// A keyType is one that a lock may be.
type keyType struct {
	name  string
	about func(redis rueidis.Client, key string) rueidis.Completed // returns two of its owners
}

var keyTypes = [...]keyType{
	{"hash", func(redis rueidis.Client, key string) rueidis.Completed {
		return redis.B().Hrandfield().Key(key).Count(2).Build()
	}},
	{"zset", func(redis rueidis.Client, key string) rueidis.Completed {
		return redis.B().Zrandmember().Key(key).Count(2).Build()
	}},
}

func (c *Client) scanType(ctx context.Context, node rueidis.Client, of keyType, pattern string, yield func(name string) bool) (more bool, err error) {
	for cursor := uint64(0); ; {
		page, err := c.page(ctx, node, cursor, pattern, of)
		if err != nil {
			return false, err
		}
		names, err := c.locksAmong(ctx, node, of, page.Elements)
		if err != nil {
			return false, err
		}
		for _, name := range names {
			if !yield(name) {
				return false, nil
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return true, nil
		}
	}
}

func (c *Client) page(ctx context.Context, node rueidis.Client, cursor uint64, pattern string, of keyType) (rueidis.ScanEntry, error) {
	if c.engine.Closed.Load() {
		return rueidis.ScanEntry{}, ErrClosed
	}
	ctx, cancel := c.engine.Redis.Within(ctx)
	defer cancel()
	return node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(scanCount).Type(of.name).Build()).AsScanEntry()
}

// isPrimary asks a node of a Cluster by HELLO, which needs no right.
func (c *Client) isPrimary(ctx context.Context, node rueidis.Client) (bool, error) {
	ctx, cancel := c.engine.Redis.Within(ctx)
	defer cancel()
	hello, err := node.Do(ctx, node.B().Hello().Build()).AsMap()
	if err != nil {
		return false, err
	}
	said := hello["role"]
	role, err := said.ToString()
	return role == "master", err
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
		asked[i] = of.about(node, key)
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
			_, told := wire.Diagnose(err)
			if errors.Is(told, ErrUnsupported) || errors.Is(told, ErrNoPermission) && strings.Contains(err.Error(), "command") {
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
		if isOwner(field) {
			owners++
		} else if field != "mode" {
			return false
		}
	}
	return owners > 0
}
