package doctor_test

import (
	"fmt"
	"slices"
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
	prepare func(t *testing.T) rueidis.ClientOption // nil: a safe server with
	args    []string                                // these arguments,
	major   int                                     // this version at least,
	before  string                                  // this command executed,
	rights  string                                  // these rights less for the user,
	info    map[string]string                       // other fields in INFO,
	replies []reply                                 // and other answers

	check  string // the only finding that is not green
	level  doctor.Level
	found  string                  // a part of its text
	remedy string                  // a part of the line that removes the fault
	cures  bool                    // the whole line, which a test carries out
	also   map[string]doctor.Level // other findings of the same fault
}

// A reply is another answer to the commands with that name that contain a text.
type reply struct{ command, text, answer string }

const (
	red, yellow, green = doctor.Red, doctor.Yellow, doctor.Green
	noHello            = "-ERR unknown command `HELLO`\r\n"
	noWait             = "-ERR unknown command 'wait'\r\n"
	undeclared         = "-ERR Error running script: script tried accessing undeclared key\r\n"
	services           = "docs/services.md"
)

// Each is a running server, except for faults that no server can be made to have, such as
// another clock or version: there a network changes the answers.
var patients = map[string]patient{
	"it evicts locks": {args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"},
		check: "eviction", level: red, remedy: "CONFIG SET maxmemory-policy noeviction", cures: true},
	"it would evict locks": {args: []string{"--maxmemory-policy", "volatile-ttl"},
		check: "eviction", level: yellow, remedy: "CONFIG SET maxmemory-policy noeviction", cures: true},
	"a restart loses everything": {args: []string{"--appendonly", "no"},
		check: "persistence", level: yellow, remedy: "CONFIG SET appendonly yes", cures: true},
	"the file is not written for long": {args: []string{"--appendfsync", "no"},
		check: "persistence", level: yellow, remedy: "CONFIG SET appendfsync everysec", cures: true},
	"the address is that of a replica": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			primary, replica := redistest.Standalone(t, safe...), redistest.Standalone(t, safe...)
			do(t, replica, "REPLICAOF "+strings.ReplaceAll(primary.Addr(), ":", " "))
			return replica.Options()
		},
		check: "state", level: red, found: "replica of 127.0.0.1", remedy: "address of the primary, or --sentinel"},
	"the replicas that min-replicas asks for are absent": {args: []string{"--min-replicas-to-write", "1"},
		check: "replicas", level: red, found: "0 in sync, min-replicas-to-write 1", remedy: "CONFIG SET min-replicas-to-write 0"},
	"its clock is an hour late": {replies: []reply{{"TIME", "", fmt.Sprintf("*2\r\n$10\r\n%d\r\n$1\r\n0\r\n", time.Now().Add(-time.Hour).Unix())}},
		check: "clock", level: yellow, found: "h", remedy: "NTP"},
	"a slot of the Cluster has no node": {prepare: cluster("no"),
		check: "cluster", level: red, found: "16383 of 16384", remedy: "redis-cli --cluster fix"},
	"a slot has no node, and the Cluster wants them all": {prepare: cluster("yes"),
		check: "cluster", level: red, found: "state fail", remedy: "redis-cli --cluster fix"},
	"it is out of memory": {before: "CONFIG SET maxmemory 1",
		check: "eviction", level: red, found: "refuses to write", remedy: "CONFIG SET maxmemory "},
	"it is loading": {prepare: loading(true),
		check: "state", level: red, found: "loading its data: ", remedy: "wait"},
	"it is loading, and does not say whether it is a Cluster": {prepare: loading(false),
		check: "state", level: red, found: "loading its data: ", remedy: "wait", also: map[string]doctor.Level{"connection": red}},
	"it is too old": {info: map[string]string{"redis_version": "5.0.14"},
		check: "version", level: red, found: "Redis 5.0.14", remedy: "update the server"},
	"it is so old that it knows no HELLO": {info: map[string]string{"redis_version": "5.0.14"}, replies: []reply{{"HELLO", "", noHello}},
		check: "version", level: red, found: "Redis 5.0.14", remedy: "update the server"},
	"it is MemoryDB": {info: map[string]string{"os": "Amazon MemoryDB", "aof_enabled": "0"},
		check: "service", level: green, found: "Amazon MemoryDB"},
	"it is ElastiCache": {info: map[string]string{"os": "Amazon ElastiCache"},
		check: "service", level: green, found: "Amazon ElastiCache"},
	"it is ElastiCache Serverless": {info: map[string]string{"os": "Amazon ElastiCache"},
		replies: []reply{{"WAIT", "", noWait}, {"EVAL", "rlock_grants:client:", "-ERR Script attempted to access a non local key in a cluster node\r\n"}},
		check:   "scripts", level: yellow, found: "may not publish to every channel", remedy: "nothing", also: map[string]doctor.Level{"lock": red}}, // the reply is that to each script with the word
	"it has no WAIT": {replies: []reply{{"WAIT", "", noWait}},
		check: "replicas", level: green, found: "Config.SyncReplicas cannot be used"},
	"it tells of changed keys": {major: 7,
		check: "tracking", level: green, found: "is told at once"},
	"it does not tell of changed keys": {replies: []reply{{"CLIENT", "TRACKING", "-ERR unknown subcommand 'TRACKING'\r\n"}},
		check: "tracking", level: green, found: "refused: CLIENT TRACKING: unknown subcommand 'TRACKING'; "},
	"its user may not choose the keys": {major: 7, rights: "-client|caching", // before, a right to a subcommand cannot be taken away
		check: "tracking", level: green, found: "ACL SETUSER <user> +client|tracking +client|caching"},
	"its user may not run scripts": {rights: "-@scripting",
		check: "rights", level: red, remedy: "+eval", also: map[string]doctor.Level{"scripts": red, "rights beside Redisson": yellow}},
	"the connection has no messages between answers": {
		prepare: func(t *testing.T) rueidis.ClientOption {
			redistest.NeedMajor(t, 7)
			option := redistest.Standalone(t, safe...).Options()
			option.AlwaysRESP2 = true
			return option
		},
		check: "tracking", level: green, found: "refused: it needs RESP3, and the connection has RESP2; "},
	"it merges the writes of several regions": {info: map[string]string{"rlec_version": "7.22.0-28", "crdt_config_version": "3"},
		check: "service", level: red, found: "Active-Active", remedy: "not Active-Active"},
	"it merges them, and says so only if asked": {replies: []reply{{"INFO", "crdt", "$23\r\ncrdt_config_version:1\r\n\r\n"}},
		check: "service", level: red, found: "Active-Active", remedy: "not Active-Active"},
	"it is Dragonfly": {info: map[string]string{"dragonfly_version": "df-v1.40.1", "redis_version": "7.4.0"}, replies: []reply{{"EVAL", "exists", undeclared}},
		check: "service", level: yellow, found: "Dragonfly df-v1.40.1", remedy: services, also: map[string]doctor.Level{"persistence": yellow, "scripts": yellow, "lock": red}},
	"it is Garnet": {info: map[string]string{"garnet_version": "2.2.8", "redis_version": "", "maxmemory_policy": ""},
		check: "service", level: red, found: "Garnet 2.2.8", remedy: "--lua-transaction-mode", also: map[string]doctor.Level{"persistence": yellow, "eviction": yellow}},
	"its scripts may not publish": {replies: []reply{{"EVAL", "publish", "-ERR PUBLISH is disabled\r\n"}},
		check: "scripts", level: red, found: "may not publish: PUBLISH is disabled", remedy: "update the server"},
	"it is kvrocks": {info: map[string]string{"kvrocks_version": "2.14.0", "redis_version": "4.0.0", "aof_enabled": "0"},
		check: "service", level: yellow, found: "kvrocks 2.14.0", remedy: services},
	"it is Upstash": {info: map[string]string{"upstash_version": "1.19.2", "aof_enabled": "0"},
		check: "service", level: yellow, found: "Upstash 1.19.2", remedy: services},
	"its scripts may touch declared keys only": {replies: []reply{{"EVAL", "exists", undeclared}},
		check: "scripts", level: yellow, found: "declared keys only", remedy: services, also: map[string]doctor.Level{"lock": red}},
	"it has no Lua, by its answer": {replies: []reply{{"EVAL", "", "-ERR Could not find scripting engine 'lua'\r\n"}},
		check: "scripts", level: red, found: "it has no Lua", remedy: "Lua module", also: map[string]doctor.Level{"rights": red}},
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
		check: "scripts", level: red, found: "it has no Lua", remedy: "Lua module", also: map[string]doctor.Level{"rights": red}},
	"Redisson uses it": {before: "HSET orders:1 4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7 1",
		check: "Redisson", level: green, found: "1 of its locks are held"},
}

func TestDoctorNamesTheFaultOfEachServerAndNoOther(t *testing.T) {
	t.Parallel()
	for what, p := range patients {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var server *redistest.Server
			var option rueidis.ClientOption
			if p.prepare != nil {
				option = p.prepare(t)
			} else {
				server, option = p.start(t)
			}
			found := examine(t, option)
			for check, level := range p.also {
				assert.Equal(t, level, found[check].Level, found[check].Found)
				delete(found, check)
			}
			f := only(t, found, p.check, p.level)
			assert.Contains(t, f.Found, p.found)
			assert.Contains(t, f.Remedy, p.remedy)
			if p.cures {
				do(t, server, f.Remedy)
				only(t, examine(t, option), p.check, green)
			}
		})
	}
}

// start starts a server with the fault.
func (p patient) start(t *testing.T) (*redistest.Server, rueidis.ClientOption) {
	server := redistest.Standalone(t, slices.Concat(safe, p.args)...)
	if p.major > 0 {
		redistest.NeedMajor(t, p.major)
	}
	if p.before != "" {
		do(t, server, p.before)
	}
	option := server.Options()
	if p.rights != "" {
		option = asUser(t, server, "~* &* +@all "+p.rights)
	}
	replies := p.replies
	if p.info != nil {
		info := changed(t, server, p.info)
		replies = append(slices.Clone(replies), reply{"INFO", "", fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)})
	}
	if replies == nil {
		return server, option
	}
	wire, err := network.Listen(server.Addr())
	require.NoError(t, err)
	t.Cleanup(wire.Close)
	wire.Rule(func(f network.Frame) network.Fate {
		for _, r := range replies {
			whole := r.command != "INFO" || r.text != "" || len(f.Args) == 1 // and not a section
			if f.Stage == network.Reply && f.Is(r.command) && whole && strings.Contains(strings.Join(f.Args, " "), r.text) {
				return network.Replace(r.answer)
			}
		}
		return network.Pass
	})
	option.InitAddress = []string{wire.Addr()}
	return server, option
}

// asUser returns the option of a user with these rights.
func asUser(t *testing.T, server *redistest.Server, rights string) rueidis.ClientOption {
	t.Helper()
	do(t, server, "ACL SETUSER locks reset on >secret "+rights)
	option := server.Options()
	option.Username, option.Password = "locks", "secret"
	return option
}

func do(t *testing.T, server *redistest.Server, command string) {
	t.Helper()
	client := server.Client(t)
	require.NoError(t, client.Do(t.Context(), client.B().Arbitrary(strings.Fields(command)...).Build()).Error(), command)
}

// changed returns the answer to INFO of a Redis with other fields; one that is "" is left out.
func changed(t *testing.T, server *redistest.Server, fields map[string]string) string {
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
	return lines.String()
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
			do(t, node, "CONFIG SET cluster-require-full-coverage "+whole)
			clients = append(clients, node.Client(t))
		}
		// A node that has forgotten the slot learns it again from what one that had not yet has
		// sent: none must have learned it since it was told to forget it.
		require.Eventually(t, func() bool {
			known := false
			for _, client := range clients {
				known = client.Do(t.Context(), client.B().ClusterDelslots().Slot(0).Build()).Error() == nil || known
				info, err := client.Do(t.Context(), client.B().ClusterInfo().Build()).ToString()
				if err != nil || !strings.Contains(info, "cluster_slots_assigned:16383") || strings.Contains(info, "cluster_state:fail") != (whole == "yes") {
					return false
				}
			}
			return !known
		}, redistest.Hang, 10*time.Millisecond)
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
		do(t, server, "CONFIG SET key-load-delay 20000 loading-process-events-interval-bytes 1024")
		option := server.Options()
		option.DisableRetry, option.ForceSingleClient = true, true
		reloader, err := rueidis.NewClient(option)
		require.NoError(t, err)
		t.Cleanup(reloader.Close)
		go reloader.Do(ctx, reloader.B().Arbitrary("DEBUG", "RELOAD").Build())
		require.Eventually(t, func() bool {
			return strings.HasPrefix(fmt.Sprint(client.Do(ctx, client.B().Ping().Build()).Error()), "LOADING")
		}, redistest.Hang, time.Millisecond)
		option.DisableRetry, option.ForceSingleClient = false, single
		return option
	}
}
