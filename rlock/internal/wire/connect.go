package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// connect returns the client that the options describe, or the one that it shares.
//
// A server that is loading its data, or is busy with a script, refuses the commands by
// which rueidis looks for a Cluster, up to Redis 7.0. That passes, as it does for a
// command of ours, so New waits for as long as a connection may take.
//
// The connections are named after the client with that id. If the server or something
// before it refuses the name they have none: HELLO with a name needs no right, but CLIENT
// SETNAME does, by which it is set in RESP2.
func connect(o Options, id string, conns *connections) (rueidis.Client, *absent) {
	if o.Client != nil {
		return o.Client, nil
	}
	option := conns.watch(o.Redis)
	named := option.ClientName == "" && !o.NoClientName
	if named {
		option.ClientName = clientName(id)
	}
	begin := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		redis, err := rueidis.NewClient(option)
		if err == nil {
			conns.name = option.ClientName
			return redis, nil
		}
		if redis != nil {
			redis.Close()
		}
		message, replied := reply(err)
		if named && refusesName(message) {
			named, option.ClientName = false, ""
			continue
		}
		f, explained := Diagnose(err)
		if replied && f == NotNow && time.Since(begin)+pause <= option.Dialer.Timeout {
			time.Sleep(pause)
			continue
		}
		if replied {
			return nil, &absent{f, refusedBy(o.Redis, message, f, explained)}
		}
		return nil, &absent{NotNow, unreachable(o.Redis, explained)}
	}
}

// refusedBy is the error of connect where the server has answered, and has refused a first command.
func refusedBy(option rueidis.ClientOption, message string, f Fault, err error) error {
	if errors.Is(err, ErrNoPermission) {
		err = cmp.Or(loginOf(option).refused(message), err)
	}
	return fmt.Errorf("cannot connect to %v: %w%s", option.InitAddress, err, remedy(message, f))
}

// unreachable is the error of connect where no server has answered. A server that is full may hang up without a word, and so
// does one that does not like the client's certificate.
func unreachable(option rueidis.ClientOption, err error) error {
	tls := ", that this port is without TLS (else set Config.Redis.TLSConfig)"
	if option.TLSConfig != nil {
		tls = ", that this port is for TLS and takes the client's certificate"
	}
	return fmt.Errorf("cannot connect to %v: %w: check that Redis runs there and has room for more clients (maxclients)%s, and Config.Redis",
		option.InitAddress, err, tls)
}

// refusesName reports whether a reply may be about the name of the client. Redis 6 says only
// that some subcommand of CLIENT is refused.
func refusesName(message string) bool {
	message = strings.ToLower(message)
	return strings.Contains(message, "setname") || strings.HasPrefix(message, "noperm") && strings.Contains(message, "client")
}

// remedies says, for the replies to a first command that the config or the server's has
// to be changed for, what to change. Those of a missing right are explained by diagnose.
var remedies = []struct{ reply, remedy string }{
	{"max number of clients", "raise maxclients of the server"},
	{"DB index", "choose a database that the server has with Config.Redis.SelectDB"},
	{"DENIED", "set a password, or protected-mode no, on the server"},
	{"This instance has cluster support disabled", severalAddresses},
	{"unknown command 'CLUSTER'", severalAddresses}, // Sentinels
	{"unknown command `CLUSTER`", severalAddresses},
	{"unknown command 'SENTINEL'", noSentinel},
	{"unknown command `SENTINEL`", noSentinel},
	{"No such master with that name", "the Sentinels know no primary by the name in Config.Redis.Sentinel.MasterSet"},
}

const (
	severalAddresses = "several addresses are those of a Cluster: give one, or name the primary in Config.Redis.Sentinel.MasterSet"
	noSentinel       = "with Config.Redis.Sentinel.MasterSet the addresses are those of Sentinels"
)

// remedy returns what to do about a reply, to follow the error.
func remedy(message string, f Fault) string {
	for _, r := range remedies {
		if strings.HasPrefix(message, r.reply) {
			return ": " + r.remedy
		}
	}
	if f == NotNow {
		return ": it was not ready within Config.Redis.Dialer.Timeout"
	}
	return ""
}

// checkMode fails where the client is one of a single server, but the server is a Sentinel or a
// node of a Cluster. rueidis takes the latter for a single server if the node refuses to say where
// the other nodes are; the names that belong to these could then never be locked.
// A server that does not know HELLO is older than Redis 6, or no Redis.
func (r *Redis) checkMode() error {
	if r.Client.Mode() != rueidis.ClientModeStandalone {
		return nil
	}
	forced := r.options.Client == nil && r.options.Redis.ForceSingleClient
	hello, err := r.Hello(r.ctx, r.Client)
	switch {
	case err != nil:
		return nil
	case hello["mode"] == "sentinel":
		return fmt.Errorf("%w: the server is a Sentinel, which has no locks: name the primary in Config.Redis.Sentinel.MasterSet", ErrInvalidConfig)
	case hello["mode"] != "cluster" || forced:
		return nil
	}
	look := r.Client.B().ClusterSlots().Build()
	if leading(hello["version"]) >= 8 {
		look = r.Client.B().ClusterShards().Build() // as rueidis does
	}
	ctx, cancel := r.Within(r.ctx)
	defer cancel()
	if err = Explain(r.Client.Do(ctx, look).Error()); err != nil {
		return fmt.Errorf("the server at %v is a node of a Cluster, and does not say where the other nodes are: %w", r.options.Redis.InitAddress, err)
	}
	return nil // the client was made for this one node on purpose
}

// Hello returns what a node says of itself: its version, mode and role. The command needs no
// right.
func (r *Redis) Hello(ctx context.Context, node rueidis.Client) (map[string]string, error) {
	ctx, cancel := r.Within(ctx)
	defer cancel()
	return node.Do(ctx, node.B().Hello().Build()).AsStrMap()
}

// leading returns the number that text begins with.
func leading(text string) (n int) {
	_, _ = fmt.Sscanf(text, "%d", &n)
	return n
}

// A login that a server refuses. Behind Sentinel there are two logins, which have fields of their
// own in the config.

// ofServer and ofSentinel name the server that refused a login, and the fields of its login.
var (
	ofServer   = login{"the server", "Config.Redis"}
	ofSentinel = login{"the Sentinel", "Config.Redis.Sentinel"}
)

// A login is a user name and a password for a server.
type login struct{ server, fields string }

// refused returns the error for a reply that refuses the login, nil for any other reply.
func (l login) refused(message string) error {
	switch {
	case strings.HasPrefix(message, "NOAUTH"):
		return fmt.Errorf("%w: %s wants a password, and %s has none: %s", ErrNoPermission, l.server, l.fields, message)
	case strings.HasPrefix(message, "WRONGPASS"):
		return fmt.Errorf("%w: %s has a wrong user name or password: %s", ErrNoPermission, l.fields, message)
	}
	return nil
}

// loginOf returns the login that was refused while a client with the option connected. rueidis
// returns the reply and not its sender, so the Sentinels are asked again: one that accepts its
// login shows that the primary refused.
func loginOf(o rueidis.ClientOption) login {
	if o.Sentinel.MasterSet == "" {
		return ofServer
	}
	o.Username, o.Password, o.TLSConfig = o.Sentinel.Username, o.Sentinel.Password, o.Sentinel.TLSConfig
	o.SelectDB, o.ClientName, o.ForceSingleClient, o.Sentinel = 0, "", true, rueidis.SentinelOption{}
	found := ofServer
	for _, address := range o.InitAddress {
		one := new(connections).watch(o)
		one.InitAddress = []string{address}
		sentinel, err := rueidis.NewClient(one)
		if err == nil {
			sentinel.Close()
			return ofServer
		}
		if errors.Is(Explain(err), ErrNoPermission) {
			found = ofSentinel
		}
	}
	return found
}

// runID asks the server of a client for its run id, and returns "" if it does not say.
func runID(ctx context.Context, client rueidis.Client) (string, error) {
	info, err := client.Do(ctx, client.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(info) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", nil
}

// ServerProcess returns the run id of the server: another process of it, or another server after a failover, has
// another one. It is "" if the server does not say. A Cluster is many servers, and is refused.
func (r *Redis) ServerProcess() (string, error) {
	if err := r.Ready(r.ctx, nil); err != nil {
		return "", err
	}
	if r.InCluster() {
		return "", fmt.Errorf("%w: a Cluster has no run id", ErrUnsupported)
	}
	ctx, cancel := r.Within(r.ctx)
	defer cancel()
	id, err := runID(ctx, r.Client)
	return id, Explain(err)
}
