package doctor

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// patience is the time limit of one question.
const patience = 3 * time.Second

// A node is one server that grants locks.
type node struct {
	addr    string
	redis   rueidis.Client
	info    map[string]string
	infoErr error
	refusal string // the node's error for any write: "OOM command not allowed ..."; "" if there is none
}

// nodes returns the primaries of a Cluster by their addresses, or the single server.
func nodes(ctx context.Context, client rueidis.Client, addr, prefix string) (found []*node) {
	if client.Mode() != rueidis.ClientModeCluster {
		return []*node{newNode(ctx, client, addr, prefix)}
	}
	for addr, redis := range client.Nodes() {
		if n := newNode(ctx, redis, addr, prefix); n.info["role"] != "slave" {
			found = append(found, n)
		}
	}
	slices.SortFunc(found, func(a, b *node) int { return strings.Compare(a.addr, b.addr) })
	return found
}

func newNode(ctx context.Context, redis rueidis.Client, addr, prefix string) *node {
	n := &node{addr: addr, redis: redis, info: make(map[string]string)}
	text, err := n.ask(ctx, "INFO").ToString()
	n.infoErr = err
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			n.info[key] = value
		}
	}
	n.refusal = n.write(ctx, prefix)
	return n
}

// slots is the number of names that are tried to find one in a slot of the node.
const slots = 100

// write writes a key that expires within a second, and returns the error of a node that refuses
// every write, else "". Other checks find the missing rights of the user.
func (n *node) write(ctx context.Context, prefix string) (refusal string) {
	for range slots {
		err := n.ask(ctx, "SET", prefix+"rlock-doctor-"+unique(), "1", "PX", "1000").Error()
		reply, ok := rueidis.IsRedisErr(err)
		switch {
		case ok && strings.HasPrefix(reply.Error(), "MOVED"):
			continue // the slot belongs to another node
		case ok && refuses(reply.Error()):
			return reply.Error()
		}
		break
	}
	return ""
}

// refuses reports whether an error is about the state of the server. The user has the right to the
// command then, since a server checks rights first.
func refuses(said string) bool {
	code, _, _ := strings.Cut(said, " ")
	return slices.Contains([]string{"OOM", "NOREPLICAS", "READONLY", "MISCONF", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "MOVED", "BUSY"}, code)
}

// loading reports whether the node does not have its data yet.
func (n *node) loading() bool { return n.info["loading"] == "1" || n.says("LOADING") }

// says reports whether the node refuses writes with an error of that code.
func (n *node) says(code string) bool { return strings.HasPrefix(n.refusal, code+" ") }

// ask sends a command, and waits for patience at most.
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

// config returns a setting; ok is false if the user may not see it, or if there is none.
func (n *node) config(ctx context.Context, name string) (value string, ok bool) {
	settings, err := n.ask(ctx, "CONFIG", "GET", name).AsStrMap()
	value, there := settings[name]
	return value, err == nil && there
}
