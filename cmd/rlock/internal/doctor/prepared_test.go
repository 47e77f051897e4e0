package doctor_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/cmd/rlock/internal/doctor"
	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
)

// A patient is a server with one fault.
type patient struct {
	prepare func(t *testing.T) rueidis.ClientOption

	check  string // the only finding that is not green
	level  doctor.Level
	found  string                  // a part of its text
	remedy string                  // a part of the line that removes the fault
	also   map[string]doctor.Level // other findings of the same fault
}

// Each is a running server, except for faults that no server can be made to have, such as
// another clock or version: there a network changes the answers.
var patients = map[string]patient{
	"the address is that of a replica": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			primary, replica := redistest.Standalone(t, safe...), redistest.Standalone(t, safe...)
			host, port, _ := strings.Cut(primary.Addr(), ":")
			do(t, replica, "REPLICAOF", host, port)
			return replica.Options()
		},
		check: "state", level: doctor.Red, found: "replica of 127.0.0.1", remedy: "address of the primary",
	},
	"the replicas that min-replicas asks for are absent": {
		prepare: standalone("--min-replicas-to-write", "1"),
		check:   "replicas", level: doctor.Red, found: "0 in sync, min-replicas-to-write 1", remedy: "CONFIG SET min-replicas-to-write 0",
	},
	"its clock is an hour late": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			seconds := strconv.FormatInt(time.Now().Add(-time.Hour).Unix(), 10)
			return through(t, network.All(network.Replace(fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$1\r\n0\r\n", len(seconds), seconds)), network.Reply, "TIME"))
		},
		check: "clock", level: doctor.Yellow, found: "h", remedy: "NTP",
	},
	"a slot of the Cluster has no node": {
		prepare: cluster("no"),
		check:   "cluster", level: doctor.Red, found: "16383 of 16384", remedy: "redis-cli --cluster fix",
	},
	"a slot has no node, and the Cluster wants them all": {
		prepare: cluster("yes"),
		check:   "cluster", level: doctor.Red, found: "state fail", remedy: "redis-cli --cluster fix",
	},
	"it is out of memory": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			server := redistest.Standalone(t, safe...)
			do(t, server, "CONFIG", "SET", "maxmemory", "1")
			return server.Options()
		},
		check: "eviction", level: doctor.Red, found: "refuses to write", remedy: "CONFIG SET maxmemory ",
	},
	"it is loading": {
		prepare: loading(true),
		check:   "state", level: doctor.Red, found: "loading its data: ", remedy: "wait",
	},
	"it is loading, and does not say whether it is a Cluster": {
		prepare: loading(false),
		check:   "state", level: doctor.Red, found: "loading its data: ", remedy: "wait", also: map[string]doctor.Level{"connection": doctor.Red},
	},
	"it is too old": {
		prepare: func(t *testing.T) rueidis.ClientOption { return through(t, version(t, "5.0.14")) },
		check:   "version", level: doctor.Red, found: "Redis 5.0.14", remedy: "update the server",
	},
	"it is so old that it knows no HELLO": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			old, unknown := version(t, "5.0.14"), network.All(network.Replace("-ERR unknown command `HELLO`\r\n"), network.Reply, "HELLO")
			return through(t, func(f network.Frame) network.Fate {
				if f.Is("HELLO") {
					return unknown(f)
				}
				return old(f)
			})
		},
		check: "version", level: doctor.Red, found: "Redis 5.0.14", remedy: "update the server",
	},
	"it is MemoryDB": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			return through(t, changed(t, map[string]string{"os": "Amazon MemoryDB", "aof_enabled": "0"}))
		},
		check: "service", level: doctor.Green, found: "Amazon MemoryDB",
	},
	"it is ElastiCache": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			return through(t, changed(t, map[string]string{"os": "Amazon ElastiCache"}))
		},
		check: "service", level: doctor.Green, found: "Amazon ElastiCache",
	},
	"it is ElastiCache Serverless": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			info := changed(t, map[string]string{"os": "Amazon ElastiCache"})
			return through(t, func(f network.Frame) network.Fate {
				if f.Stage == network.Reply && f.Is("WAIT") {
					return network.Replace("-ERR unknown command 'wait'\r\n")
				}
				if f.Stage == network.Reply && f.Is("EVAL") && strings.HasPrefix(f.Args[len(f.Args)-1], "rlock_grants:client:") {
					return network.Replace("-ERR Script attempted to access a non local key in a cluster node\r\n")
				}
				return info(f)
			})
		},
		check: "scripts", level: doctor.Yellow, found: "may not publish to every channel", remedy: "nothing",
	},
	"it has no WAIT": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			return through(t, network.All(network.Replace("-ERR unknown command 'wait'\r\n"), network.Reply, "WAIT"))
		},
		check: "replicas", level: doctor.Green, found: "Config.SyncReplicas cannot be used",
	},
	"it tells of changed keys": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			redistest.NeedMajor(t, 7)
			return redistest.Standalone(t, safe...).Options()
		},
		check: "tracking", level: doctor.Green, found: "is told at once",
	},
	"it does not tell of changed keys": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			return through(t, func(f network.Frame) network.Fate {
				if f.Stage == network.Reply && f.Is("CLIENT") && strings.EqualFold(f.Args[1], "TRACKING") {
					return network.Replace("-ERR unknown subcommand 'TRACKING'\r\n")
				}
				return network.Pass
			})
		},
		check: "tracking", level: doctor.Green, found: "refused: CLIENT TRACKING: unknown subcommand 'TRACKING'; ",
	},
	"its user may not choose the keys": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			server := redistest.Standalone(t, safe...)
			redistest.NeedMajor(t, 7) // before, a right to a subcommand cannot be taken away
			do(t, server, "ACL", "SETUSER", "locks", "on", ">secret", "~*", "&*", "+@all", "-client|caching")
			option := server.Options()
			option.Username, option.Password = "locks", "secret"
			return option
		},
		check: "tracking", level: doctor.Green, found: "ACL SETUSER <user> +client|tracking +client|caching",
	},
	"the connection has no messages between answers": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			redistest.NeedMajor(t, 7)
			option := redistest.Standalone(t, safe...).Options()
			option.AlwaysRESP2 = true
			return option
		},
		check: "tracking", level: doctor.Green, found: "refused: it needs RESP3, and the connection has RESP2; ",
	},
	"it merges the writes of several regions": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			return through(t, changed(t, map[string]string{"rlec_version": "7.22.0-28", "crdt_config_version": "3"}))
		},
		check: "service", level: doctor.Red, found: "Active-Active", remedy: "not Active-Active",
	},
	"it merges them, and says so only if asked": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			return through(t, func(f network.Frame) network.Fate {
				if f.Stage == network.Reply && f.Is("INFO") && len(f.Args) > 1 && f.Args[1] == "crdt" {
					return network.Replace("$23\r\ncrdt_config_version:1\r\n\r\n")
				}
				return network.Pass
			})
		},
		check: "service", level: doctor.Red, found: "Active-Active", remedy: "not Active-Active",
	},
	"it is Dragonfly": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			return through(t, strict(changed(t, map[string]string{"dragonfly_version": "df-v1.40.1", "redis_version": "7.4.0"})))
		},
		check: "service", level: doctor.Yellow, found: "Dragonfly df-v1.40.1", remedy: "docs/services.md",
		also: map[string]doctor.Level{"persistence": doctor.Yellow, "scripts": doctor.Yellow},
	},
	"it is Garnet": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			return through(t, changed(t, map[string]string{"garnet_version": "2.2.8", "redis_version": "", "maxmemory_policy": ""}))
		},
		check: "service", level: doctor.Red, found: "Garnet 2.2.8", remedy: "--lua-transaction-mode",
		also: map[string]doctor.Level{"persistence": doctor.Yellow, "eviction": doctor.Yellow},
	},
	"its scripts may not publish": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			return through(t, func(f network.Frame) network.Fate {
				if f.Stage == network.Reply && f.Is("EVAL") && strings.Contains(f.Args[1], "publish") {
					return network.Replace("-ERR PUBLISH is disabled\r\n")
				}
				return network.Pass
			})
		},
		check: "scripts", level: doctor.Red, found: "may not publish: PUBLISH is disabled", remedy: "update the server",
	},
	"it is kvrocks": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			return through(t, changed(t, map[string]string{"kvrocks_version": "2.14.0", "redis_version": "4.0.0", "aof_enabled": "0"}))
		},
		check: "service", level: doctor.Yellow, found: "kvrocks 2.14.0", remedy: "docs/services.md",
	},
	"it is Upstash": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			return through(t, changed(t, map[string]string{"upstash_version": "1.19.2", "aof_enabled": "0"}))
		},
		check: "service", level: doctor.Yellow, found: "Upstash 1.19.2", remedy: "docs/services.md",
	},
	"its scripts may touch declared keys only": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			return through(t, strict(func(network.Frame) network.Fate { return network.Pass }))
		},
		check: "scripts", level: doctor.Yellow, found: "declared keys only", remedy: "docs/services.md",
	},
	"it has no Lua, by its answer": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			return through(t, network.All(network.Replace("-ERR Could not find scripting engine 'lua'\r\n"), network.Reply, "EVAL"))
		},
		check: "scripts", level: doctor.Red, found: "it has no Lua", remedy: "Lua module", also: map[string]doctor.Level{"rights": doctor.Red},
	},
	"it is a Valkey whose Lua module was taken out": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			redistest.NeedValkey(t, 9)
			server := redistest.Standalone(t, append([]string{"--enable-module-command", "yes"}, safe...)...)
			client := server.Client(t)
			if client.Do(t.Context(), client.B().Arbitrary("MODULE", "UNLOAD", "lua").Build()).Error() != nil {
				t.Skip("its Lua is no module")
			}
			return server.Options()
		},
		check: "scripts", level: doctor.Red, found: "it has no Lua", remedy: "Lua module", also: map[string]doctor.Level{"rights": doctor.Red},
	},
	"Redisson uses it": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			server := redistest.Standalone(t, safe...)
			do(t, server, "HSET", "orders:1", "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7", "1")
			return server.Options()
		},
		check: "Redisson", level: doctor.Green, found: "1 of its locks are held",
	},
}

func TestDoctorNamesTheFaultOfEachServerAndNoOther(t *testing.T) {
	t.Parallel()
	for what, p := range patients {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			found := examine(t, p.prepare(t))
			for check, level := range p.also {
				assert.Equal(t, level, found[check].Level, found[check].Found)
				delete(found, check)
			}
			f := only(t, found, p.check, p.level)
			assert.Contains(t, f.Found, p.found)
			assert.Contains(t, f.Remedy, p.remedy)
		})
	}
}

// standalone returns a safe server with these arguments added.
func standalone(args ...string) func(t *testing.T) rueidis.ClientOption {
	return func(t *testing.T) rueidis.ClientOption {
		return redistest.Standalone(t, append(append([]string{}, safe...), args...)...).Options()
	}
}

func do(t *testing.T, server *redistest.Server, words ...string) {
	t.Helper()
	client := server.Client(t)
	require.NoError(t, client.Do(t.Context(), client.B().Arbitrary(words...).Build()).Error(), "%v", words)
}

// through returns a safe server behind a network with that rule.
func through(t *testing.T, rule network.Rule) rueidis.ClientOption {
	server := redistest.Standalone(t, safe...)
	wire, err := network.Listen(server.Addr())
	require.NoError(t, err)
	t.Cleanup(wire.Close)
	wire.Rule(rule)
	option := server.Options()
	option.InitAddress = []string{wire.Addr()}
	return option
}

// version replaces the answer to INFO by that of another version.
func version(t *testing.T, release string) network.Rule {
	return changed(t, map[string]string{"redis_version": release})
}

// changed replaces the answer to INFO by one of a Redis with other fields; one that is "" is left
// out.
func changed(t *testing.T, fields map[string]string) network.Rule {
	server := redistest.Standalone(t, safe...)
	client := server.Client(t)
	info, err := client.Do(t.Context(), client.B().Info().Build()).ToString()
	require.NoError(t, err)
	var lines strings.Builder
	for line := range strings.Lines(info) {
		key, _, _ := strings.Cut(line, ":")
		if _, other := fields[key]; !other && key != "valkey_version" && key != "server_name" {
			lines.WriteString(line)
		}
	}
	for key, value := range fields {
		if value != "" {
			lines.WriteString(key + ":" + value + "\r\n")
		}
	}
	whole := network.All(network.Replace(fmt.Sprintf("$%d\r\n%s\r\n", lines.Len(), lines.String())), network.Reply, "INFO")
	return func(f network.Frame) network.Fate {
		if len(f.Args) > 1 { // a section
			return network.Pass
		}
		return whole(f)
	}
}

// strict refuses the scripts that touch a key that is not declared, as Dragonfly does.
func strict(rule network.Rule) network.Rule {
	return func(f network.Frame) network.Fate {
		if f.Stage == network.Reply && f.Is("EVAL") && strings.Contains(f.Args[1], "exists") {
			return network.Replace("-ERR Error running script: script tried accessing undeclared key\r\n")
		}
		return rule(f)
	}
}

// cluster returns a Cluster in which one of the slots has no owner.
func cluster(whole string) func(t *testing.T) rueidis.ClientOption {
	return func(t *testing.T) rueidis.ClientOption {
		server := redistest.Cluster(t, append([]string{"--cluster-require-full-coverage", "no", "--min-replicas-to-write", "1"}, safe...)...)
		if !server.HasShardedPubSub() {
			t.Skip("such an old Cluster has a second finding: about pub/sub")
		}
		var clients []rueidis.Client
		for _, node := range server.Nodes() {
			do(t, node, "CONFIG", "SET", "cluster-require-full-coverage", whole)
			clients = append(clients, node.Client(t))
		}
		// A node that has forgotten the slot learns it again from one that has not yet.
		require.Eventually(t, func() bool {
			for _, client := range clients {
				_ = client.Do(t.Context(), client.B().ClusterDelslots().Slot(0).Build())
				info, err := client.Do(t.Context(), client.B().ClusterInfo().Build()).ToString()
				if err != nil || !strings.Contains(info, "cluster_slots_assigned:16383") || strings.Contains(info, "cluster_state:fail") != (whole == "yes") {
					return false
				}
			}
			return true
		}, hang, 10*time.Millisecond)
		return server.Options()
	}
}

// loading returns a server that loads its data for a minute. It is configured as a single
// server, so that its mode need not be asked for.
func loading(single bool) func(t *testing.T) rueidis.ClientOption {
	return func(t *testing.T) rueidis.ClientOption {
		redistest.NeedMajor(t, 7)
		server := redistest.Standalone(t, append([]string{"--enable-debug-command", "yes"}, safe...)...)
		client := server.Client(t)
		ctx := t.Context()
		for i := range 3000 {
			require.NoError(t, client.Do(ctx, client.B().Set().Key(strconv.Itoa(i)).Value(strings.Repeat("x", 2000)).Build()).Error())
		}
		do(t, server, "CONFIG", "SET", "key-load-delay", "20000", "loading-process-events-interval-bytes", "1024")
		option := server.Options()
		option.DisableRetry, option.ForceSingleClient = true, true
		reloader, err := rueidis.NewClient(option)
		require.NoError(t, err)
		t.Cleanup(reloader.Close)
		go reloader.Do(ctx, reloader.B().Arbitrary("DEBUG", "RELOAD").Build())
		require.Eventually(t, func() bool {
			return strings.HasPrefix(fmt.Sprint(client.Do(ctx, client.B().Ping().Build()).Error()), "LOADING")
		}, hang, time.Millisecond)
		option.DisableRetry, option.ForceSingleClient = false, single
		return option
	}
}
