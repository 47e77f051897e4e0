package doctor

import (
	"cmp"
	"context"
	"fmt"
	"strings"
)

// A service is a managed service, or a server that is neither Redis nor Valkey: see
// docs/services.md.
type service struct {
	name string
	// field is the field of INFO by which the service is known. If value is not "", the field
	// contains that text.
	field, value string
	// own is set if the field has the version of the server. Its redis_version is then that of the
	// Redis with which it is compatible.
	own bool

	level        Level // the level of the finding
	risk, remedy string

	persistence verdict // the verdict on persistence, of a service that does not keep its data as Redis does
}

const untested = "rlock's tests have not been run on it"

var services = []service{
	{
		name: "Amazon MemoryDB", field: "os", value: "Amazon MemoryDB",
		persistence: green("a log in several zones: a failover and a restart lose no write that was answered"),
	},
	{name: "Amazon ElastiCache", field: "os", value: "Amazon ElastiCache"},
	{name: "Redis Enterprise (Redis Cloud, Azure Managed Redis)", field: "rlec_version"},
	{
		name: "Dragonfly", field: "dragonfly_version", own: true,
		level: Yellow, risk: untested, remedy: "docs/services.md has the flags to start it with",
		persistence: verdict{
			level: Yellow, found: "snapshots only",
			risk:   "after a restart " + forgotten,
			remedy: "--snapshot_cron, for shorter intervals",
		},
	},
	{
		name: "Garnet", field: "garnet_version", own: true,
		level:  Red,
		risk:   "without --lua-transaction-mode its scripts are not atomic, and a lock may be granted twice; whether it was started so cannot be seen",
		remedy: "start it with --lua --lua-transaction-mode, or use another server",
		persistence: verdict{
			level: Yellow, found: "not known",
			risk:   "without --aof a restart loses everything: " + forgotten,
			remedy: "start it with --aof and --recover",
		},
	},
	{
		name: "kvrocks", field: "kvrocks_version", own: true,
		level: Yellow, risk: untested, remedy: "docs/services.md",
		persistence: green("all data are on disk"),
	},
	{
		name: "Upstash", field: "upstash_version", own: true,
		level: Yellow, risk: untested, remedy: "docs/services.md",
		persistence: green("all data are on disk"),
	},
}

// forgotten is what the loss of all data means.
const forgotten = "fencing tokens begin anew, and locks that are held are granted again"

// service returns the service that the node is, nil for a Redis or a Valkey.
func (n *node) service() *service {
	for i, s := range services {
		if value, there := n.info[s.field]; there && strings.Contains(value, s.value) {
			return &services[i]
		}
	}
	return nil
}

func serviceOf(ctx context.Context, n *node) verdict {
	if n.merges(ctx) {
		return verdict{
			level: Red, found: "an Active-Active database: it is merged with those of other regions",
			risk:   "clients in two regions are granted the same lock",
			remedy: "use a database that is not Active-Active for locks",
		}
	}
	s := n.service()
	if s == nil {
		return green("none is recognised")
	}
	v := verdict{level: s.level, found: s.name, risk: s.risk, remedy: s.remedy}
	if s.own {
		v.found = fmt.Sprintf("%s %s", s.name, n.info[s.field])
	}
	if v.level == Green {
		v.found += ": see docs/services.md"
	}
	return v
}

// merges reports whether the node is a part of an Active-Active database of Redis Enterprise, which
// has a section of INFO.
func (n *node) merges(ctx context.Context) bool {
	if n.info["crdt_config_version"] != "" {
		return true
	}
	text, _ := n.ask(ctx, "INFO", "crdt").ToString() // a server that does not know the section answers with none
	return strings.Contains(text, "crdt_config_version:")
}

// ownVersion returns the version of a server that is neither Redis nor Valkey; ok is false for
// all others.
func (n *node) ownVersion() (text string, ok bool) {
	s := n.service()
	if s == nil || !s.own {
		return "", false
	}
	return fmt.Sprintf("%s %s (like Redis %s)", s.name, n.info[s.field], cmp.Or(n.info["redis_version"], "of an unknown version")), true
}
