package doctor

import (
	"context"
	"strings"

	"github.com/redis/rueidis"
)

// scripts reports whether the server executes scripts, and what it forbids them.
func scripts(ctx context.Context, redis rueidis.Client, n *node, prefix string) Finding {
	f := Finding{Check: "scripts", Found: "are executed"}
	eval := func(script string, words ...string) string {
		cmd := redis.B().Arbitrary("EVAL", script, "1").Keys(words[0]).Args(words[1:]...)
		err := redis.Do(ctx, cmd.Build()).Error()
		if reply, ok := rueidis.IsRedisErr(err); ok && !reply.IsNil() && !refuses(reply.Error()) {
			return harmless(err)
		}
		return ""
	}
	name := prefix + "rlock-doctor-" + unique()
	tag := "{" + name + "}"
	said := eval("return 1", name)
	switch {
	case lacksLua(said):
		f.Level, f.Found = Red, "it has no Lua: "+said
		f.Risk = "every lock is a script: nothing can be locked"
		f.Remedy = "load the server's Lua module, or use a server that has Lua"
		return f
	case said != "":
		f.Level, f.Found = Red, "a script is refused: "+said
		f.Risk = "every lock is a script: nothing can be locked"
		f.Remedy = "ACL SETUSER <user> +eval +evalsha"
		return f
	}

	// The call does not declare this key, which is in the slot of the key that it declares. Another
	// check finds a missing right to it.
	said = eval("return redis.call('exists', ARGV[1])", name, "rlock_queue:"+tag)
	if said != "" && !aboutRights(said) {
		f.Level, f.Found = Yellow, "are executed, but may touch declared keys only: "+said
		f.Risk = strictRisk
		f.Remedy = "docs/services.md has what to do for each service"
	}

	publish, channel := "publish", "rlock_grants:"+tag+":doctor"
	if redis.Mode() == rueidis.ClientModeCluster && n.ask(ctx, "PUBSUB", "SHARDNUMSUB").Error() == nil {
		publish = "spublish"
	}
	said = eval("return redis.call('"+publish+"', ARGV[1], '0')", name, channel)
	if said != "" && !aboutRights(said) {
		f.Level, f.Found = Red, "are executed, but may not publish: "+said
		f.Risk = "a lock for which clients wait cannot be released, since a script tells the next one"
		f.Remedy = "update the server; docs/services.md names the version"
		return f
	}
	said = eval("return redis.call('publish', ARGV[1], '0')", name, "rlock_grants:client:doctor")
	if said != "" && !aboutRights(said) && f.Level < Yellow {
		f.Level, f.Found = Yellow, "are executed, but may not publish to every channel: "+said
		f.Risk = "a forced unlock is noticed at the next renewal only"
		f.Remedy = "nothing"
	}
	return f
}

// strictRisk is the risk where scripts may touch declared keys only.
const strictRisk = "NewReadWriteLock fails at the first acquire, since the keys of other readers cannot be declared"

// aboutRights reports whether an error is about the user's rights, which another check examines.
func aboutRights(said string) bool {
	said = strings.ToLower(said)
	return strings.Contains(said, "noperm") || strings.Contains(said, "permission") || strings.Contains(said, "acl failure") ||
		strings.Contains(said, "the user executing the script")
}

// lacksLua reports whether an error says that the server has no scripts at all, as a Valkey whose
// Lua module is absent does.
func lacksLua(said string) bool {
	return strings.Contains(said, "scripting engine") || strings.Contains(strings.ToLower(said), "unknown command")
}
