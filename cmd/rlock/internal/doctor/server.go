package doctor

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
)

// A verdict is the result of a check for one node.
type verdict struct {
	level  Level
	found  string
	risk   string
	remedy string
}

func green(format string, args ...any) verdict { return verdict{found: fmt.Sprintf(format, args...)} }

// A check examines each node by itself.
type check struct {
	name string
	look func(ctx context.Context, n *node) verdict
}

// checks are in the order in which they are shown. They need INFO.
var checks = []check{
	{"version", version},
	{"service", serviceOf},
	{"state", state},
	{"eviction", eviction},
	{"persistence", persistence},
	{"replicas", replicas},
	{"connections", connections},
	{"tracking", tracking},
}

func version(_ context.Context, n *node) verdict {
	if text, ok := n.ownVersion(); ok {
		return green("%s", text)
	}
	name, text := "Redis", n.info["redis_version"]
	if valkey := n.info["valkey_version"]; valkey != "" {
		name, text = "Valkey", valkey
	}
	major, rest, _ := strings.Cut(text, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, _ := strconv.Atoi(major)
	b, _ := strconv.Atoi(minor)
	if a < 6 || a == 6 && b < 2 {
		return verdict{
			level: Red, found: name + " " + text,
			risk:   "the scripts need commands of Redis 6.2, and nothing was tested on older servers",
			remedy: "update the server to Redis 6.2, Valkey 8, or later",
		}
	}
	return green("%s %s", name, text)
}

func state(_ context.Context, n *node) verdict {
	switch {
	case n.loading():
		v := verdict{
			level: Red, found: "it is loading its data",
			risk:   "nothing can be locked or renewed until it has",
			remedy: "wait for loading:0 in INFO persistence",
		}
		if done := n.info["loading_loaded_perc"]; done != "" {
			v.found += fmt.Sprintf(": %s %%, and %s s are left", done, n.info["loading_eta_seconds"])
		}
		return v
	case n.info["role"] == "slave":
		return verdict{
			level: Red, found: "it is a replica of " + n.info["master_host"] + ":" + n.info["master_port"],
			risk:   "a replica refuses to write: nothing can be locked",
			remedy: "use the address of the primary, or --sentinel",
		}
	}
	for _, code := range []string{"READONLY", "MASTERDOWN", "BUSY"} {
		if n.says(code) {
			return verdict{
				level: Red, found: "it refuses to write: " + n.refusal,
				risk:   "nothing can be locked",
				remedy: "redis-cli, and INFO: is it the primary, and is a script running?",
			}
		}
	}
	return green("a primary, up for %s days", n.info["uptime_in_days"])
}

func eviction(_ context.Context, n *node) verdict {
	policy, limit, used := n.info["maxmemory_policy"], n.number("maxmemory"), n.number("used_memory")
	if policy == "" {
		return verdict{
			level: Yellow, found: "not known: INFO has no maxmemory_policy",
			risk:   "a lock that is held may be evicted, and be granted to a second holder",
			remedy: "see the documents of the server, and switch eviction off",
		}
	}
	if policy != "noeviction" {
		v := verdict{
			level: Red, found: fmt.Sprintf("maxmemory-policy %s, maxmemory %s", policy, n.info["maxmemory_human"]),
			risk:   "a lock that is held may be evicted, and be granted to a second holder",
			remedy: "CONFIG SET maxmemory-policy noeviction",
		}
		if limit == 0 {
			v.level, v.risk = Yellow, "once maxmemory is set, "+v.risk
		}
		return v
	}
	if n.says("OOM") {
		return verdict{
			level: Red, found: fmt.Sprintf("noeviction, and all of maxmemory %s is used: it refuses to write", n.info["maxmemory_human"]),
			risk:   "nothing can be locked",
			remedy: fmt.Sprintf("CONFIG SET maxmemory %d", 2*max(limit, used)),
		}
	}
	if limit > 0 && used > limit/10*9 {
		return verdict{
			level: Yellow, found: fmt.Sprintf("noeviction, and %d %% of maxmemory is used", used*100/limit),
			risk:   "a full server refuses to write: nothing can be locked or renewed",
			remedy: fmt.Sprintf("CONFIG SET maxmemory %d", 2*limit),
		}
	}
	return green("noeviction")
}

func persistence(ctx context.Context, n *node) verdict {
	if s := n.service(); s != nil && s.persistence.found != "" && !n.says("MISCONF") {
		return s.persistence
	}
	switch {
	case n.says("MISCONF"):
		return verdict{
			level: Red, found: "the last write to the disk failed: it refuses to write",
			risk:   "nothing can be locked",
			remedy: "make room on the disk of the server, and read its log",
		}
	case n.info["aof_enabled"] == "1" && n.info["aof_last_write_status"] == "err":
		return verdict{
			level: Red, found: "the last write to the append-only file failed",
			risk:   "the server refuses to write: nothing can be locked",
			remedy: "make room on the disk of the server",
		}
	case n.info["aof_enabled"] == "1":
		policy, ok := n.config(ctx, "appendfsync")
		if ok && policy == "no" {
			return verdict{
				level: Yellow, found: "an append-only file, appendfsync no",
				risk:   "after a crash of the machine up to half a minute is lost: " + forgotten,
				remedy: "CONFIG SET appendfsync everysec",
			}
		}
		if ok && policy == "everysec" {
			return green("an append-only file; a crash of the machine may lose the last second")
		}
		return green("an append-only file")
	}
	if save, ok := n.config(ctx, "save"); ok && save != "" && n.info["rdb_last_bgsave_status"] == "err" {
		return verdict{
			level: Red, found: "the last snapshot failed",
			risk:   "the server refuses to write, unless stop-writes-on-bgsave-error is no: nothing can be locked",
			remedy: "make room on the disk of the server",
		}
	}
	return verdict{
		level: Yellow, found: "no append-only file",
		risk:   "after a restart " + forgotten,
		remedy: "CONFIG SET appendonly yes",
	}
}

func replicas(ctx context.Context, n *node) verdict {
	v := failover(ctx, n)
	if err := n.ask(ctx, "WAIT", "0", "1").Error(); err != nil && strings.Contains(strings.ToLower(err.Error()), "unknown command") {
		v.found += "; it has no WAIT: Config.SyncReplicas cannot be used"
	}
	return v
}

func failover(ctx context.Context, n *node) verdict {
	count := n.number("connected_slaves")
	if n.says("NOREPLICAS") {
		least, _ := n.config(ctx, "min-replicas-to-write")
		return verdict{
			level: Red, found: fmt.Sprintf("%s in sync, min-replicas-to-write %s: it refuses to write", cmp.Or(n.info["min_slaves_good_slaves"], "too few"), cmp.Or(least, "is more")),
			risk:   "nothing can be locked",
			remedy: "start its replicas, or CONFIG SET min-replicas-to-write 0",
		}
	}
	if count == 0 {
		if n.info["cluster_enabled"] == "1" {
			return verdict{
				level: Yellow, found: "no replica",
				risk:   "if it fails its slots are gone, and nothing in them can be locked",
				remedy: "redis-cli --cluster add-node <host:port> " + n.addr + " --cluster-slave",
			}
		}
		return green("none: there is no failover to lose a grant in")
	}
	for i := range count {
		fields := n.info["slave"+strconv.FormatInt(i, 10)]
		if !strings.Contains(fields, "state=online") {
			return verdict{
				level: Yellow, found: "a replica is not in sync: " + fields,
				risk:   "a failover to it loses locks",
				remedy: "INFO replication, on the replica",
			}
		}
	}
	least, known := n.config(ctx, "min-replicas-to-write")
	if known && least == "0" {
		return verdict{
			level: Yellow, found: fmt.Sprintf("%d in sync, min-replicas-to-write 0", count),
			risk:   "a primary that is cut off goes on granting locks that its replacement does not know of",
			remedy: "CONFIG SET min-replicas-to-write 1",
		}
	}
	if !known {
		return green("%d in sync; a failover may lose the last grants: see Config.SyncReplicas", count)
	}
	return green("%d in sync, min-replicas-to-write %s; a failover may lose the last grants: see Config.SyncReplicas", count, least)
}

func connections(ctx context.Context, n *node) verdict {
	used, limit := n.number("connected_clients"), n.number("maxclients")
	if text, ok := n.config(ctx, "maxclients"); limit == 0 && ok {
		limit, _ = strconv.ParseInt(text, 10, 64)
	}
	if limit > 0 && used > limit/10*9 {
		return verdict{
			level: Yellow, found: fmt.Sprintf("%d of maxclients %d", used, limit),
			risk:   "clients that connect, or reconnect after an outage, are refused, and lose what they hold",
			remedy: fmt.Sprintf("CONFIG SET maxclients %d", 2*limit),
		}
	}
	if limit == 0 {
		return green("%d", used)
	}
	return green("%d of %d", used, limit)
}

// gather makes one finding of the verdicts on all nodes: the worst of them, with the name of its
// node.
func gather(name string, all []*node, verdicts []verdict) Finding {
	worst, same := 0, true
	for i, v := range verdicts {
		same = same && v.found == verdicts[0].found
		if v.level > verdicts[worst].level {
			worst = i
		}
	}
	v := verdicts[worst]
	if len(all) > 1 && v.level > Green && !same {
		v.found = all[worst].addr + ": " + v.found
	} else if len(all) > 1 && same {
		v.found = fmt.Sprintf("%s (%d primaries)", v.found, len(all))
	}
	return Finding{Check: name, Level: v.level, Found: v.found, Risk: v.risk, Remedy: v.remedy}
}
