package doctor

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// A need lists the rights that a part of rlock needs.
type need struct {
	check string
	level Level // the level of a missing right
	risk  string
	tries []try
}

// A try is a harmless command. Its key, if it has one, is the first word after the command's name.
type try struct {
	right string // the right, as an ACL has it
	words []string
	keyed bool
}

// unique returns a text that no other call returns.
func unique() string { return strings.ToLower(rand.Text()[:12]) }

// rights tries each command that rlock needs, on keys of a name of its own that expire within a
// second. The commands of Sentinel and Cluster have worked if the doctor is connected.
func rights(ctx context.Context, redis rueidis.Client, prefix string) (findings []Finding) {
	name := prefix + "rlock-doctor-" + unique()
	for _, need := range needs(name, redis.Mode() == rueidis.ClientModeCluster) {
		findings = append(findings, need.find(ctx, redis))
	}
	return findings
}

// needs returns the list of docs/operations.md.
func needs(name string, cluster bool) []need {
	on := func(right string, words ...string) try { return try{right: "+" + right, words: words, keyed: true} }
	tag := "{" + name + "}"
	queue, foreign, channel := "rlock_queue:"+tag, "rlock_foreign:"+tag, "redisson_lock__channel:"+tag
	every := []try{
		on("hset", "HSET", name, "f", "1"), on("pexpire", "PEXPIRE", name, "1000"), on("pttl", "PTTL", name),
		on("hget", "HGET", name, "f"), on("hexists", "HEXISTS", name, "f"), on("hkeys", "HKEYS", name),
		on("hdel", "HDEL", name, "f"), on("exists", "EXISTS", name),
		on("zadd", "ZADD", queue, "XX", "1", "m"), on("zrange", "ZRANGE", queue, "0", "0"), on("zrangebyscore", "ZRANGEBYSCORE", queue, "1", "+inf"),
		on("zcount", "ZCOUNT", queue, "1", "+inf"), on("zscore", "ZSCORE", queue, "m"), on("zrem", "ZREM", queue, "m"),
		on("hset", "HSET", foreign, "f", "1"), on("pexpire", "PEXPIRE", foreign, "1000"), on("hmget", "HMGET", foreign, "f"),
		on("exists", "EXISTS", channel),
		{right: "+evalsha", words: []string{"EVALSHA", strings.Repeat("0", 40), "0"}},
		{right: "+eval", words: []string{"EVAL", "return 1", "0"}},
		{right: "+time", words: []string{"TIME"}},
		{right: "+ping", words: []string{"PING"}},
	}
	numsub := try{right: "+pubsub|numsub", words: []string{"PUBSUB", "NUMSUB"}}
	if cluster {
		numsub = try{right: "+pubsub|shardnumsub", words: []string{"PUBSUB", "SHARDNUMSUB"}}
	}
	token, rw := "redisson_lock_token:"+tag, tag+":rlock-doctor:rwlock_timeout:1"
	return []need{
		{"rights", Red, "nothing can be locked, or waiters are not told", append(every, numsub)},
		{"rights of fenced locks", Yellow, "NewFencedLock fails", []try{
			on("incrby", "INCRBY", token, "0"), on("get", "GET", token), on("pexpire", "PEXPIRE", token, "1000"),
		}},
		{"rights of read-write locks", Yellow, "NewReadWriteLock fails", []try{
			on("hgetall", "HGETALL", name), on("hlen", "HLEN", name), on("del", "DEL", name),
			on("set", "SET", rw, "1", "PX", "1000"), on("exists", "EXISTS", "redisson_rwlock:"+tag),
		}},
		{"rights of semaphores", Yellow, "NewSemaphore fails", []try{
			on("zcard", "ZCARD", name), on("exists", "EXISTS", "rlock_grants:semaphore:"+tag),
		}},
		{"rights beside Redisson", Yellow, "waiters of Redisson's fair lock and its spin locks wait longer", []try{
			on("exists", "EXISTS", "redisson_lock_queue:"+tag), on("exists", "EXISTS", "redisson_lock_timeout:"+tag),
			on("lrange", "LRANGE", "redisson_lock_queue:"+tag, "0", "0"), on("lindex", "LINDEX", "redisson_lock_queue:"+tag, "0"), on("lrem", "LREM", "redisson_lock_queue:"+tag, "1", "m"),
			{right: "+script|exists", words: []string{"SCRIPT", "EXISTS", strings.Repeat("0", 40)}},
		}},
		{"rights to inspect", Yellow, "rlock ls and rlock show fail, or show no process", []try{
			on("hlen", "HLEN", name), on("hscan", "HSCAN", name, "0"), on("hrandfield", "HRANDFIELD", name, "1"), on("zrandmember", "ZRANDMEMBER", name, "1"),
			{right: "+scan", words: []string{"SCAN", "0", "COUNT", "1"}},
			{right: "+client|list", words: []string{"CLIENT", "LIST", "ID", "1"}},
		}},
	}
}

// find makes the tries.
func (n need) find(ctx context.Context, redis rueidis.Client) Finding {
	f := Finding{Check: n.check, Found: fmt.Sprintf("all %d commands are permitted", len(n.tries))}
	var missing, said []string
	for _, t := range n.tries {
		right, told := t.missing(ctx, redis)
		if right == "" {
			continue
		}
		if len(missing) == 0 || missing[len(missing)-1] != right {
			missing = append(missing, right)
		}
		said = append(said, told)
	}
	if len(missing) == 0 {
		return f
	}
	f.Level, f.Risk = n.level, n.risk
	f.Found = fmt.Sprintf("%d of %d commands are refused; the first: %s", len(said), len(n.tries), said[0])
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
	case err == nil, rueidis.IsRedisNil(err), ok && reply.IsNoScript(), ok && refuses(reply.Error()):
		return "", ""
	case ok && t.words[0] == "PUBSUB" && !strings.HasPrefix(reply.Error(), "NOPERM"):
		return "", "" // before Redis 7 there is no SHARDNUMSUB, and rlock does without
	case ok && strings.HasPrefix(reply.Error(), "NOPERM") && strings.Contains(reply.Error(), "key"):
		return "~" + pattern(t.words[1]), t.words[0] + " " + t.words[1] + ": " + harmless(err)
	}
	return t.right, t.words[0] + ": " + harmless(err)
}

// pattern returns the pattern in docs/operations.md that a key of the doctor matches.
func pattern(key string) string {
	before, _, _ := strings.Cut(key, "rlock-doctor-")
	return before + "*"
}
