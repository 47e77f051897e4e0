package doctor

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/docs"
)

// A need is a part of rlock, and the ACL lines in docs/operations.md that give it its rights.
type need struct {
	check string
	level Level // the level of a missing right
	risk  string
	lines []string
}

// unique returns a text that no other call returns.
func unique() string { return strings.ToLower(rand.Text()[:12]) }

// rights tries each command that rlock needs, on keys of a name of its own that expire within a
// second. The commands of Sentinel and Cluster have worked if the doctor is connected.
func rights(ctx context.Context, redis rueidis.Client, prefix string) (findings []Finding) {
	name, connected := prefix+"rlock-doctor-"+unique(), "one primary"
	if redis.Mode() == rueidis.ClientModeCluster {
		connected = "Cluster"
	}
	for _, n := range needs(connected) {
		findings = append(findings, n.find(ctx, redis, n.tries(name)))
	}
	return findings
}

func needs(connected string) []need {
	return []need{
		{"rights", Red, "nothing can be locked, or waiters are not told", []string{"every lock", connected}},
		{"rights of fenced locks", Yellow, "NewFencedLock fails", []string{"FencedLock"}},
		{"rights of read-write locks", Yellow, "NewReadWriteLock fails", []string{"ReadWriteLock"}},
		{"rights of semaphores", Yellow, "NewSemaphore fails", []string{"Semaphore"}},
		{"rights beside Redisson", Yellow, "waiters of Redisson's fair lock and its spin locks wait longer", []string{"Redisson"}},
		{"rights to inspect", Yellow, "rlock ls and rlock show fail, or show no process", []string{"Inspect and Locks"}},
	}
}

// A try is a harmless command. Its key, if it has one, is the first word after the command's name.
type try struct {
	right string // the right, as an ACL has it
	words []string
	keyed bool
}

var noScript = strings.Repeat("0", 40)

// onKey has the words of a command after its key, which does not outlive the PEXPIRE after them.
var onKey = map[string]string{
	"del": "", "exists": "", "get": "", "hdel": "f", "hexists": "f", "hget": "f", "hgetall": "", "hkeys": "", "hlen": "", "hmget": "f",
	"hrandfield": "1", "hscan": "0", "hset": "f 1", "incrby": "0", "lindex": "0", "lrange": "0 0", "lrem": "1 m", "pexpire": "1000", "pttl": "",
	"set": "1 PX 1000", "zadd": "XX 1 m", "zcard": "", "zcount": "1 +inf", "zrandmember": "1", "zrange": "0 0", "zrangebyscore": "1 +inf",
	"zrem": "m", "zscore": "m",
}

// onNone has the words of a command without a key. The commands in neither list have worked, are
// examined by other checks, or would leave a key.
var onNone = map[string]string{
	"client|list": "ID 1", "eval": "return 0", "evalsha": noScript + " 0", "ping": "", "pubsub|numsub": "", "pubsub|shardnumsub": "",
	"scan": "0 COUNT 1", "script|exists": noScript, "time": "",
}

// tries returns a command for each right, and two for each key of a lock of this name: one that
// reads and one that writes.
func (n need) tries(name string) (tries []try) {
	keys := []string{name}
	for _, line := range n.lines {
		for _, rule := range docs.Rights(line) {
			words := strings.Split(rule[1:], "|")
			if args, ok := onKey[rule[1:]]; ok {
				tries = append(tries, try{rule, slices.Concat(words, []string{name}, strings.Fields(args)), true})
			}
			if args, ok := onNone[rule[1:]]; ok {
				tries = append(tries, try{rule, append(words, strings.Fields(args)...), false})
			}
			if before, ok := strings.CutSuffix(rule, "{orders:*"); ok && rule[0] == '~' {
				tagged := "{" + name + "}"
				if strings.Contains(name, "{") { // the tag of the names is in the prefix
					tagged = name
				}
				keys = append(keys, before[1:]+tagged)
			}
		}
	}
	for _, key := range keys {
		tries = append(tries, try{"+pttl", []string{"pttl", key}, true}, try{"+pexpire", []string{"pexpire", key, "1000"}, true})
	}
	return tries
}

// find makes the tries.
func (n need) find(ctx context.Context, redis rueidis.Client, tries []try) Finding {
	f := Finding{Check: n.check, Found: fmt.Sprintf("all %d commands are permitted", len(tries))}
	var missing, said []string
	for _, t := range tries {
		right, told := t.missing(ctx, redis)
		if right == "" {
			continue
		}
		if !slices.Contains(missing, right) {
			missing = append(missing, right)
		}
		said = append(said, told)
	}
	if len(missing) == 0 {
		return f
	}
	f.Level, f.Risk = n.level, n.risk
	f.Found = fmt.Sprintf("%d of %d commands are refused; the first: %s", len(said), len(tries), said[0])
	f.Remedy = "ACL SETUSER <user> " + strings.Join(missing, " ")
	if slices.Contains(missing, "~*") { // without --prefix the keys of the doctor have none
		f.Remedy = "--prefix, if the user's locks have one; or " + f.Remedy
	}
	return f
}

// missing returns the missing right, and the server's answer.
func (t try) missing(ctx context.Context, redis rueidis.Client) (right, said string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	build := redis.B().Arbitrary(t.words[0])
	if t.keyed {
		build = build.Keys(t.words[1]).Args(t.words[2:]...)
	} else {
		build = build.Args(t.words[1:]...)
	}
	err := redis.Do(ctx, build.Build()).Error()
	reply, ok := rueidis.IsRedisErr(err)
	switch {
	case err == nil, rueidis.IsRedisNil(err), ok && reply.IsNoScript(), ok && (refuses(reply.Error()) || strings.HasPrefix(reply.Error(), "WRONGTYPE")):
		return "", ""
	case ok && t.words[0] == "pubsub" && !strings.HasPrefix(reply.Error(), "NOPERM"):
		return "", "" // before Redis 7 there is no SHARDNUMSUB, and rlock does without
	case ok && strings.HasPrefix(reply.Error(), "NOPERM") && strings.Contains(reply.Error(), "key"):
		return "~" + pattern(t.words[1]), strings.ToUpper(t.words[0]) + " " + t.words[1] + ": " + harmless(err)
	}
	return t.right, strings.ToUpper(t.words[0]) + ": " + harmless(err)
}

// pattern returns the pattern in docs/operations.md that a key of the doctor matches.
func pattern(key string) string {
	before, _, _ := strings.Cut(key, "rlock-doctor-")
	return before + "*"
}
