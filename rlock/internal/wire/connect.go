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

// newRueidis returns the client of rueidis that the options describe, or the shared one.
//
// Up to Redis 7.0 a server that is loading its data, or is busy with a script, refuses the commands
// by which rueidis looks for a Cluster. newRueidis tries again, for as long as a connection may
// take.
//
// The connections are named after the client (clientName), or have no name if the server or a proxy
// refuses it. In RESP2 CLIENT SETNAME sets the name, which needs a right; HELLO needs none.
func newRueidis(o Options, id string, conns *connections) (rueidis.Client, *absent) {
	if o.Client != nil {
		return o.Client, nil
	}
	option := conns.wrapDials(o.Redis)
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
		message, replied := replyText(err)
		if named && refusesName(message) {
			named, option.ClientName = false, ""
			continue
		}
		d, explained := Diagnose(err)
		if replied && d == NotNow && time.Since(begin)+pause <= option.Dialer.Timeout {
			time.Sleep(pause)
			continue
		}
		if replied {
			return nil, &absent{d, refusedBy(o.Redis, message, d, explained)}
		}
		return nil, &absent{NotNow, unreachable(o.Redis, explained)}
	}
}

// refusedBy returns the error of newRueidis if the server has refused one of the first commands.
func refusedBy(option rueidis.ClientOption, message string, d Diagnosis, err error) error {
	if errors.Is(err, ErrNoPermission) {
		err = cmp.Or(loginOf(option).refused(message), err)
	}
	return fmt.Errorf("cannot connect to %v: %w%s", option.InitAddress, err, remedy(message, d))
}

// unreachable returns the error of newRueidis if no server has answered. A server that is full may
// hang up without a reply, and so does a server that rejects the client's certificate.
func unreachable(option rueidis.ClientOption, err error) error {
	tls := ", that this port is without TLS (else set Config.Redis.TLSConfig)"
	if option.TLSConfig != nil {
		tls = ", that this port is for TLS and takes the client's certificate"
	}
	return fmt.Errorf("cannot connect to %v: %w: check that Redis runs there and has room for more clients (maxclients)%s, and Config.Redis",
		option.InitAddress, err, tls)
}

// refusesName reports whether a reply may be the refusal of the client's name. Redis 6 says only
// that a subcommand of CLIENT is refused.
func refusesName(message string) bool {
	message = strings.ToLower(message)
	return strings.Contains(message, "setname") || strings.HasPrefix(message, "noperm") && strings.Contains(message, "client")
}

// remedies are the changes of the config or the server that cure a refusal, by the beginning of the
// reply. Diagnose explains replies about a missing right.
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

// remedy returns the advice for a reply, which is appended to the error.
func remedy(message string, d Diagnosis) string {
	for _, r := range remedies {
		if strings.HasPrefix(message, r.reply) {
			return ": " + r.remedy
		}
	}
	if d == NotNow {
		return ": it was not ready within Config.Redis.Dialer.Timeout"
	}
	return ""
}

// checkMode returns an error if the server that was taken for a single one is a Sentinel, or a node
// of a Cluster that refuses to list the other nodes: the names of the other nodes could never be
// locked. A server that does not know HELLO is older than Redis 6, or no Redis, and passes. A
// shared client that is closed, or has lost its server, is an error of [Open].
func (r *Redis) checkMode() error {
	if r.Client.Mode() != rueidis.ClientModeStandalone {
		return nil
	}
	shared := r.options.Client != nil
	forced := !shared && r.options.Redis.ForceSingleClient
	hello, err := r.Hello(r.ctx, r.Client)
	_, replied := replyText(err)
	if shared && err != nil && !replied { // the connection of a shared client may have died idle
		hello, err = r.Hello(r.ctx, r.Client)
		_, replied = replyText(err)
	}
	switch {
	case shared && err != nil && !replied && r.opening == nil:
		return fmt.Errorf("the rueidis client in Config.Client does not reach Redis: %w", err)
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
	return nil
}

// Hello returns the reply of a node to HELLO, with its version, mode and role. HELLO needs no
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

// With Sentinel there are two logins.
var (
	ofServer   = login{"the server", "Config.Redis"}
	ofSentinel = login{"the Sentinel", "Config.Redis.Sentinel"}
)

// A login is a user name and a password, by the server that asks for them and the fields of the
// config that have them.
type login struct{ server, fields string }

// refused returns the error for a reply that refuses the login; nil for any other reply.
func (l login) refused(message string) error {
	switch {
	case strings.HasPrefix(message, "NOAUTH"):
		return fmt.Errorf("%w: %s wants a password, and %s has none: %s", ErrNoPermission, l.server, l.fields, message)
	case strings.HasPrefix(message, "WRONGPASS"):
		return fmt.Errorf("%w: %s has a wrong user name or password: %s", ErrNoPermission, l.fields, message)
	}
	return nil
}

// loginOf returns the login that was refused while a client connected. rueidis does not say which
// server has refused it, so the Sentinels are asked again: if a Sentinel accepts its login, the
// primary has refused the other login.
func loginOf(o rueidis.ClientOption) login {
	if o.Sentinel.MasterSet == "" {
		return ofServer
	}
	o.Username, o.Password, o.TLSConfig = o.Sentinel.Username, o.Sentinel.Password, o.Sentinel.TLSConfig
	o.SelectDB, o.ClientName, o.ForceSingleClient, o.Sentinel = 0, "", true, rueidis.SentinelOption{}
	found := ofServer
	for _, address := range o.InitAddress {
		one := new(connections).wrapDials(o)
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
