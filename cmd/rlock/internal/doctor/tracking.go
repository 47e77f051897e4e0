package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// tracking reports whether Redis notifies a client that a lock's key is gone: see
// rlock.Advanced.TrackedKeys. Without that only time is lost, so that a refusal is green.
func tracking(ctx context.Context, n *node) verdict {
	if why := n.untracked(ctx); why != "" {
		return green("refused: %s; DEL, FLUSHALL or an eviction of a held lock is told at the next renewal, after a third of the lease at the latest", why)
	}
	return green("DEL, FLUSHALL or an eviction of a held lock is told at once")
}

// untracked returns the reason why no key can be tracked over this connection, or "".
func (n *node) untracked(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	b := n.redis.B()
	replies := n.redis.DoMulti(ctx, b.Hello().Build(), b.ClientTracking().On().Optin().Noloop().Build(), b.ClientCaching().Yes().Build())
	if hello, err := replies[0].AsMap(); err == nil {
		proto, version := hello["proto"], hello["version"]
		number, _ := proto.AsInt64()
		text, _ := version.ToString()
		major, _, _ := strings.Cut(text, ".")
		if release, err := strconv.Atoi(major); err == nil && release < 7 {
			return "it needs Redis 7 or Valkey, and this is version " + text
		}
		if number < 3 {
			return fmt.Sprintf("it needs RESP3, and the connection has RESP%d", number)
		}
	}
	for i, command := range []string{"HELLO", "CLIENT TRACKING", "CLIENT CACHING"} {
		if err := replies[i].Error(); err != nil {
			reason := harmless(err)
			if reply, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(reply.Error(), "NOPERM") {
				reason += " (ACL SETUSER <user> +client|tracking +client|caching)"
			}
			return command + ": " + reason
		}
	}
	return ""
}
