package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/cmd/rlock/internal/address"
	"github.com/go-rlock/rlock/cmd/rlock/internal/view"
	"github.com/go-rlock/rlock/internal/secret"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// pings is the number of round trips measured.
const pings = 200

// Examine examines the server of the config. Prefix is the prefix of the user's lock names: the
// test keys have it, too. A server that cannot be reached is a finding.
func Examine(ctx context.Context, config rlock.Config, prefix string) []Finding {
	client, err := address.Connect(ctx, config)
	if err != nil {
		return unusable(ctx, config.Redis, prefix, err)
	}
	defer client.Close()
	option := config.Redis
	option.DisableCache, option.AlwaysPipelining, option.DisableRetry = true, true, true
	option.ConnWriteTimeout, option.Dialer.Timeout = patience, patience
	redis, err := rueidis.NewClient(option)
	if err != nil {
		return unreachable(harmless(err))
	}
	defer redis.Close()
	all := nodes(ctx, redis, strings.Join(option.InitAddress, ","), prefix)
	if len(all) == 0 {
		return unreachable("no primary of the Cluster answers")
	}

	findings := append([]Finding{{Check: connection, Found: mode(redis, option)}}, servers(ctx, all)...)
	if slices.ContainsFunc(all, (*node).loading) {
		return findings // the server answers nothing else
	}
	if redis.Mode() == rueidis.ClientModeCluster {
		findings = append(findings, cluster(ctx, all))
	}
	findings = append(findings, lock(ctx, config, prefix))
	findings = append(findings, scripts(ctx, redis, all[0], prefix), pubSub(ctx, redis, all[0], prefix))
	findings = append(findings, rights(ctx, redis, prefix)...)
	return append(append(findings, clock(ctx, all), roundTrip(ctx, all)), holders(ctx, client, all)...)
}

// lock takes a lock whose name has the prefix, as a readiness probe does.
func lock(ctx context.Context, config rlock.Config, prefix string) Finding {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	config.Prefix = prefix
	client, err := address.Connect(ctx, config)
	if err == nil {
		err = client.Check(ctx)
		_ = client.Close() // it holds nothing
	}
	if err != nil {
		return Finding{
			Check: "lock", Level: Red, Found: strings.TrimPrefix(harmless(err), "check: "),
			Risk:   "a lock cannot be taken now, or not be released",
			Remedy: "docs/errors.md has the error; the findings about the server and the rights may give the reason",
		}
	}
	return Finding{Check: "lock", Found: "taken and released"}
}

// connection is the check that is red if the server cannot be reached.
const connection = "connection"

// IsUnreachable reports whether the server could not be reached, so that little was examined.
func IsUnreachable(findings []Finding) bool {
	return len(findings) > 0 && findings[0].Check == connection && findings[0].Level == Red
}

func unreachable(found string) []Finding {
	return []Finding{{
		Check: connection, Level: Red, Found: found,
		Risk:   "nothing can be locked",
		Remedy: "check the address, that a server runs there, and the user",
	}}
}

// unusable returns the findings about a server to which rlock cannot connect. If the server
// answers, its own findings may give the reason.
func unusable(ctx context.Context, option rueidis.ClientOption, prefix string, why error) []Finding {
	findings := unreachable(harmless(why))
	if option.Sentinel.MasterSet != "" {
		return findings // the addresses are those of Sentinels
	}
	option.ForceSingleClient, option.DisableRetry, option.DisableCache = true, true, true
	option.ConnWriteTimeout, option.Dialer.Timeout = patience, patience
	for _, addr := range option.InitAddress {
		option.InitAddress = []string{addr}
		redis, err := rueidis.NewClient(option)
		if err != nil {
			continue
		}
		defer redis.Close()
		if n := newNode(ctx, redis, addr, prefix); n.infoErr == nil {
			return append(findings, servers(ctx, []*node{n})...)
		}
	}
	return findings
}

// servers returns the findings of the checks that examine each server by itself.
func servers(ctx context.Context, all []*node) (findings []Finding) {
	for _, n := range all {
		if n.infoErr != nil {
			return []Finding{{
				Check: "server", Level: Yellow, Found: "not known: INFO: " + harmless(n.infoErr),
				Risk:   "version, role, eviction, persistence, replicas and connections may be of any sort",
				Remedy: "ACL SETUSER <user> +info, for this examination",
			}}
		}
	}
	for _, c := range checks {
		verdicts := make([]verdict, len(all))
		for i, n := range all {
			verdicts[i] = c.look(ctx, n)
		}
		findings = append(findings, gather(c.name, all, verdicts))
	}
	return findings
}

func mode(redis rueidis.Client, option rueidis.ClientOption) string {
	text := string(redis.Mode())
	if option.TLSConfig != nil {
		text += ", TLS"
	}
	return text
}

// pubSub reports which family of commands rlock will use, and whether a message arrives.
func pubSub(ctx context.Context, redis rueidis.Client, n *node, prefix string) Finding {
	f := Finding{Check: "pub/sub", Found: "plain (PUBLISH)"}
	sharded := false
	if redis.Mode() == rueidis.ClientModeCluster {
		if err := n.ask(ctx, "PUBSUB", "SHARDNUMSUB").Error(); err == nil {
			sharded, f.Found = true, "sharded (SPUBLISH)"
		} else {
			f.Level = Yellow
			f.Found = "plain in a Cluster: the server has no sharded pub/sub"
			f.Risk = "clients of Redisson that wait cannot be counted, and get fewer turns"
			f.Remedy = "update the server to Redis 7 or Valkey"
		}
	}
	if err := hears(ctx, redis, sharded, prefix); err != nil {
		f.Level = Yellow
		f.Found += ", but no message arrives: " + harmless(err)
		f.Risk = "waiters poll, from 1 ms doubling to 128 ms, instead of being told"
		f.Remedy = "ACL SETUSER <user> +publish +subscribe"
		if sharded {
			f.Remedy = "ACL SETUSER <user> +spublish +ssubscribe"
		}
		if strings.Contains(err.Error(), "channel") {
			f.Remedy = "ACL SETUSER <user> &rlock_grants:{" + prefix + "* &rlock_grants:client:* &redisson_lock__channel:{" + prefix + "*"
		}
	}
	return f
}

// hears subscribes to a channel of its own, and publishes there until a message arrives.
func hears(ctx context.Context, redis rueidis.Client, sharded bool, prefix string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	channel := "rlock_grants:{" + prefix + "rlock-doctor}:" + unique()
	subscribe, publish := redis.B().Subscribe().Channel(channel).Build(), func() rueidis.Completed { return redis.B().Publish().Channel(channel).Message("0").Build() }
	if sharded {
		subscribe = redis.B().Ssubscribe().Channel(channel).Build()
		publish = func() rueidis.Completed { return redis.B().Spublish().Channel(channel).Message("0").Build() }
	}
	ended := make(chan error, 1)
	listening, stop := context.WithCancel(ctx)
	defer stop()
	heard := make(chan struct{}, 1)
	go func() {
		ended <- redis.Receive(listening, subscribe, func(rueidis.PubSubMessage) {
			select {
			case heard <- struct{}{}:
			default:
			}
		})
	}()
	for {
		if err := redis.Do(ctx, publish()).Error(); err != nil {
			return err
		}
		select {
		case <-heard:
			return nil
		case err := <-ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// clock compares the clocks of the servers with that of this host.
func clock(ctx context.Context, all []*node) Finding {
	f := Finding{Check: "clock"}
	var worst time.Duration
	for _, n := range all {
		sent := time.Now()
		parts, err := n.ask(ctx, "TIME").AsIntSlice()
		if err != nil || len(parts) != 2 {
			f.Level, f.Found = Yellow, "not known: "+harmless(err)
			f.Risk, f.Remedy = "semaphores and turns of Redisson need TIME", "ACL SETUSER <user> +time"
			return f
		}
		middle := sent.Add(time.Since(sent) / 2)
		off := time.Unix(parts[0], parts[1]*1000).Sub(middle)
		if off.Abs() > worst.Abs() {
			worst = off
		}
	}
	f.Found = fmt.Sprintf("%v apart from this host's", worst.Abs().Round(time.Millisecond))
	if worst.Abs() > 2*time.Second {
		f.Level = Yellow
		f.Risk = "a clock that is set right by a step ends leases early, and locks are granted twice"
		f.Remedy = "run NTP on both hosts, and let it slew the clock (chrony: makestep 1 3)"
	}
	return f
}

// roundTrip measures the time of a PING on each node.
func roundTrip(ctx context.Context, all []*node) Finding {
	f := Finding{Check: "round trip"}
	var took []time.Duration
	for i := range pings {
		begin := time.Now()
		if err := all[i%len(all)].ask(ctx, "PING").Error(); err == nil {
			took = append(took, time.Since(begin))
		}
	}
	if len(took) == 0 {
		f.Level, f.Found = Yellow, "not known: PING is refused"
		f.Risk, f.Remedy = "a dead connection is noticed late", "ACL SETUSER <user> +ping"
		return f
	}
	slices.Sort(took)
	p50, p99 := took[len(took)/2], took[len(took)*99/100]
	f.Found = fmt.Sprintf("p50 %v, p99 %v, of %d", p50.Round(time.Microsecond), p99.Round(time.Microsecond), len(took))
	switch {
	case p99 > time.Second:
		f.Level = Red
		f.Risk, f.Remedy = "locks are slow, and short leases are lost", "redis-cli --latency-history, and SLOWLOG GET on the server"
	case p99 > 50*time.Millisecond:
		f.Level = Yellow
		f.Risk, f.Remedy = "each contended lock waits for this time at least", "redis-cli --latency-history, and SLOWLOG GET on the server"
	}
	return f
}

// mostLooked is the number of locks whose holders are looked at.
const mostLooked = 1000

// holders reports whether clients of Redisson use the server, and, if locks are passed on, which.
func holders(ctx context.Context, client *rlock.Client, all []*node) []Finding {
	channels, held, looked, passed, first := 0, 0, 0, 0, ""
	for _, n := range all {
		for _, words := range [][]string{{"PUBSUB", "CHANNELS", "redisson*"}, {"PUBSUB", "SHARDCHANNELS", "redisson*"}} {
			list, _ := n.ask(ctx, words...).AsStrSlice()
			channels += len(list)
		}
	}
	for name, err := range inspect.Of(client).Locks(ctx, "") {
		if looked++; err != nil || looked > mostLooked {
			break
		}
		i, err := inspect.Of(client).Lock(ctx, name)
		if err != nil {
			continue
		}
		if slices.ContainsFunc(i.Holders, func(h inspect.Holder) bool { return h.Foreign }) {
			held++
		}
		if at := slices.IndexFunc(i.Holders, func(h inspect.Holder) bool { return h.Passed }); at >= 0 {
			passed++
			first = cmp.Or(first, fmt.Sprintf("%s is %s", view.Printable(name), view.Holder(i.Holders[at])))
		}
	}
	f := Finding{Check: "Redisson", Found: "no sign of it"}
	if channels > 0 || held > 0 {
		f.Found = fmt.Sprintf("it is here: %d of its channels have subscribers, %d of its locks are held; see docs/redisson.md", channels, held)
	}
	if passed == 0 {
		return []Finding{f}
	}
	return []Finding{f, {Check: "passed locks", Found: fmt.Sprintf("%d are passed on and not resumed yet, or held for a least time; %s", passed, first)}}
}

// harmless returns the text of an error, without the name of the user.
func harmless(err error) string {
	if err == nil {
		return "an answer that cannot be read"
	}
	return strings.TrimPrefix(secret.HideUser(err.Error()), "rlock: ")
}
