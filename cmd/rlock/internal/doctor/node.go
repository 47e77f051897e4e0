package doctor

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// patience is how long one question may take.
const patience = 3 * time.Second

// A node is one server that grants locks.
type node struct {
	addr    string
	redis   rueidis.Client
	info    map[string]string
	infoErr error
}

// nodes returns the primaries of a Cluster by their addresses, or the one server.
func nodes(ctx context.Context, client rueidis.Client, addr string) (found []*node) {
	if client.Mode() != rueidis.ClientModeCluster {
		return []*node{newNode(ctx, client, addr)}
	}
	for addr, redis := range client.Nodes() {
		if n := newNode(ctx, redis, addr); n.info["role"] != "slave" {
			found = append(found, n)
		}
	}
	slices.SortFunc(found, func(a, b *node) int { return strings.Compare(a.addr, b.addr) })
	return found
}

func newNode(ctx context.Context, redis rueidis.Client, addr string) *node {
	n := &node{addr: addr, redis: redis, info: make(map[string]string)}
	text, err := n.ask(ctx, "INFO").ToString()
	n.infoErr = err
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			n.info[key] = value
		}
	}
	return n
}

// ask sends a command of which nothing but the time it may take is bounded.
func (n *node) ask(ctx context.Context, words ...string) rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return n.redis.Do(ctx, n.redis.B().Arbitrary(words...).Build())
}

// number returns a field of INFO, 0 if it is not there.
func (n *node) number(field string) int64 {
	number, _ := strconv.ParseInt(n.info[field], 10, 64)
	return number
}

// config returns a setting, and whether the user may see it.
func (n *node) config(ctx context.Context, name string) (value string, ok bool) {
	settings, err := n.ask(ctx, "CONFIG", "GET", name).AsStrMap()
	value, there := settings[name]
	return value, err == nil && there
}
