package cost

import (
	"context"
	_ "embed" // for the script
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/bench/clientlease/prototype"
)

//go:embed scripts/mirror.lua
var mirrorText string

const (
	together  = 32       // locks in a call, as rlock's
	pipeline  = 1000     // commands that are sent together
	rounds    = 3        // of each measurement
	longLease = "300000" // milliseconds: nothing ends while it is measured
	leases    = "rlock_leases"
)

// A bench is one run of Measure.
type bench struct {
	ctx    context.Context
	redis  rueidis.Client
	locks  int
	mirror string // hash of the script
	table  Table
	series map[*time.Duration][]time.Duration // the measurements of a field of table
	err    error                              // the first; nothing is measured after it

	hash    bool // whether the server has HPEXPIRE
	greater bool // whether its PEXPIRE has GT
}

// Measure measures everything with so many locks, in a server that has nothing else to do.
// It deletes all keys of the server, before and after.
func Measure(ctx context.Context, redis rueidis.Client, locks int) (Table, error) {
	b := &bench{ctx: ctx, redis: redis, locks: locks, series: make(map[*time.Duration][]time.Duration)}
	b.prepare()
	for range rounds {
		b.ownLeases()
		b.clientLease()
		b.fields()
		b.series[&b.table.End] = append(b.series[&b.table.End], endContexts(locks))
	}
	for at, all := range b.series {
		*at = slices.Min(all)
	}
	b.empty()
	return b.table, b.err
}

func (b *bench) prepare() {
	info, err := b.redis.Do(b.ctx, b.redis.B().Info().Section("server").Build()).ToString()
	b.failed(err)
	b.table.Server = "Redis " + value(info, "redis_version")
	if valkey := value(info, "valkey_version"); valkey != "" {
		b.table.Server = "Valkey " + valkey
	}
	for _, text := range []string{mirrorText, prototype.Acquire.Text, prototype.Attach.Text, prototype.Release.Text} {
		sha, err := b.redis.Do(b.ctx, b.redis.B().ScriptLoad().Script(text).Build()).ToString()
		b.failed(err)
		if text == mirrorText {
			b.mirror = sha
		}
	}
	b.greater = !strings.HasPrefix(value(info, "redis_version"), "6.")
	known, err := b.redis.Do(b.ctx, b.redis.B().CommandInfo().CommandName("hpexpire").Build()).ToArray()
	b.failed(err)
	b.hash = len(known) == 1 && !known[0].IsNil()
}

func name(i int) string      { return "clientlease:" + strconv.Itoa(i) }
func owner(i int) string     { return fmt.Sprintf("%08d-0000-8000-0000-000000000000:1", i) }
func clientKey(i int) string { return fmt.Sprintf("rlock_client:%08d-0000-8000-:1", i) }

// A builder makes one command for n things from the i-th on.
type builder func(i, n int) rueidis.Completed

// ownLeases measures locks with leases of their own.
func (b *bench) ownLeases() {
	t := &b.table
	b.empty()
	t.LockBytes = b.weighs(func() { b.measure(&t.Acquire, nil, 1, b.acquires(owner, nil)) })
	b.measure(&t.Refused, nil, 1, b.acquires(func(int) string { return "other:1" }, nil))
	b.measure(&t.MirrorAlone, nil, 1, b.mirrors(longLease))
	b.measure(&t.Mirror32, &t.MirrorClient, together, b.mirrors(longLease))
	if b.greater {
		b.measurePairs(&t.Pair, &t.PairClient)
	}
	b.measure(&t.Look32, nil, together, b.mirrors(""))
	b.measure(&t.Release, nil, 1, b.releases())
}

// clientLease measures locks that are attached to the client lease 0, and as many client leases.
func (b *bench) clientLease() {
	t := &b.table
	var warm time.Duration
	b.empty()
	t.LeaseBytes = b.weighs(func() {
		b.measure(&warm, nil, 1, func(i, _ int) rueidis.Completed {
			return b.redis.B().Set().Key(clientKey(i)).Value("1").PxMilliseconds(300_000).Build()
		})
	})
	b.measure(&t.Renew, &t.RenewClient, 1, func(i, _ int) rueidis.Completed {
		return b.redis.B().Pexpire().Key(clientKey(i)).Milliseconds(300_000).Build()
	})
	named := clientKey(0)
	t.AttachedBytes = b.weighs(func() {
		b.measure(&warm, nil, 1, b.acquires(owner, nil))
		b.measure(&warm, nil, together, b.attaches())
	})
	b.measure(&t.Attach32, nil, together, b.attaches())
	other := func(int) string { return "other:1" }
	b.measure(&t.RefusedNamed, nil, 1, b.acquires(other, &named))
	b.failed(b.redis.Do(b.ctx, b.redis.B().Del().Key(named).Build()).Error())
	b.measure(&t.Take, nil, 1, b.acquires(other, &named))
	delete(b.series, &warm)
}

// fields measures leases that are fields of a hash, a hash for 4 096 of them.
func (b *bench) fields() {
	if !b.hash {
		return
	}
	t := &b.table
	var warm time.Duration
	hash := func(i int) string { return leases + strconv.Itoa(i/4096) } // too large for a listpack, in which a field is searched for
	first := func(i, n int) rueidis.Completed {
		c := b.redis.B().Arbitrary("HPEXPIRE").Keys(hash(i)).Args("200000", "FIELDS", strconv.Itoa(n))
		for ; n > 0; i, n = i+1, n-1 {
			c = c.Args(name(i))
		}
		return c.Build()
	}
	set := func(i, n int) rueidis.Completed {
		c := b.redis.B().Arbitrary("HSET").Keys(hash(i))
		for ; n > 0; i, n = i+1, n-1 {
			c = c.Args(name(i), owner(i))
		}
		return c.Build()
	}
	renew := func(commands rueidis.Commands, i, n int) rueidis.Commands {
		expire := b.redis.B().Arbitrary("HPEXPIRE").Keys(hash(i)).Args(longLease, "GT", "FIELDS", strconv.Itoa(n))
		owners := b.redis.B().Arbitrary("HMGET").Keys(hash(i))
		for ; n > 0; i, n = i+1, n-1 {
			expire, owners = expire.Args(name(i)), owners.Args(name(i))
		}
		return append(commands, expire.Build(), owners.Build())
	}
	b.empty()
	t.FieldBytes = b.weighs(func() {
		b.measure(&warm, nil, together, set)
		b.measure(&warm, nil, together, first)
	})
	b.timed(&t.Field32, nil, together, renew)
	b.timed(&t.FieldAlone, nil, 1, renew)
	delete(b.series, &warm)
}

func (b *bench) acquires(owner func(int) string, presumed *string) builder {
	return func(i, _ int) rueidis.Completed {
		keys := []string{name(i)}
		if presumed != nil {
			keys = append(keys, *presumed)
		}
		return prototype.Acquire.Build(b.redis, keys, []string{longLease, owner(i)})
	}
}

func (b *bench) releases() builder {
	return func(i, _ int) rueidis.Completed {
		return prototype.Release.Build(b.redis, []string{name(i)}, []string{owner(i)})
	}
}

func (b *bench) mirrors(lease string) builder {
	return func(i, n int) rueidis.Completed {
		var keys, args []string
		for ; n > 0; i, n = i+1, n-1 {
			keys, args = append(keys, name(i)), append(args, lease, owner(i))
		}
		return b.redis.B().Evalsha().Sha1(b.mirror).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
	}
}

func (b *bench) attaches() builder {
	return func(i, n int) rueidis.Completed {
		keys, args := []string{clientKey(0)}, []string{"3600000"}
		for ; n > 0; i, n = i+1, n-1 {
			keys, args = append(keys, name(i)), append(args, owner(i))
		}
		return prototype.Attach.Build(b.redis, keys, args)
	}
}

// measurePairs measures renewals of two plain commands: a lock that is still the owner's after its
// lease was lengthened was the owner's at that moment, since no owner comes back.
func (b *bench) measurePairs(server, client *time.Duration) {
	b.timed(server, client, 1, func(commands rueidis.Commands, i, _ int) rueidis.Commands {
		return append(commands,
			b.redis.B().Pexpire().Key(name(i)).Milliseconds(300_001).Gt().Build(),
			b.redis.B().Hget().Key(name(i)).Field(owner(i)).Build())
	})
}

// measure builds commands for all locks, n in each, sends them, and notes what one lock cost
// the server, and this process if client is not nil.
func (b *bench) measure(server, client *time.Duration, n int, build builder) {
	b.timed(server, client, n, func(commands rueidis.Commands, i, n int) rueidis.Commands {
		return append(commands, build(i, n))
	})
}

func (b *bench) timed(server, client *time.Duration, n int, add func(commands rueidis.Commands, i, n int) rueidis.Commands) {
	if b.err != nil {
		return
	}
	before, err := serverTime(b.ctx, b.redis)
	b.failed(err)
	ours := processTime()
	for i := 0; i < b.locks && b.err == nil; {
		var commands rueidis.Commands
		for ; i < b.locks && len(commands) < pipeline; i += n {
			commands = add(commands, i, min(n, b.locks-i))
		}
		for _, result := range b.redis.DoMulti(b.ctx, commands...) {
			if err := result.Error(); !rueidis.IsRedisNil(err) {
				b.failed(err)
			}
		}
	}
	ours = processTime() - ours
	after, err := serverTime(b.ctx, b.redis)
	b.failed(err)
	b.series[server] = append(b.series[server], (after-before)/time.Duration(b.locks))
	if client != nil {
		b.series[client] = append(b.series[client], ours/time.Duration(b.locks))
	}
}

// weighs returns how many bytes do adds to the server's memory, for each lock.
func (b *bench) weighs(do func()) float64 {
	before := b.memory()
	do()
	return (b.memory() - before) / float64(b.locks)
}

func (b *bench) memory() float64 {
	info, err := b.redis.Do(b.ctx, b.redis.B().Info().Section("memory").Build()).ToString()
	b.failed(err)
	used, err := strconv.ParseFloat(value(info, "used_memory"), 64)
	b.failed(err)
	return used
}

func (b *bench) empty() {
	b.failed(b.redis.Do(b.ctx, b.redis.B().Flushall().Sync().Build()).Error())
}

func (b *bench) failed(err error) {
	if b.err == nil && err != nil {
		b.err = fmt.Errorf("cost: %w", err)
	}
}

// serverTime returns the CPU time that the server has used.
func serverTime(ctx context.Context, redis rueidis.Client) (time.Duration, error) {
	info, err := redis.Do(ctx, redis.B().Info().Section("cpu").Build()).ToString()
	user, err2 := strconv.ParseFloat(value(info, "used_cpu_user"), 64)
	system, err3 := strconv.ParseFloat(value(info, "used_cpu_sys"), 64)
	return time.Duration((user + system) * float64(time.Second)), errors.Join(err, err2, err3)
}

// value returns what INFO says of key, "" if nothing.
func value(info, key string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// endContexts cancels n contexts at once, as a client does whose lease is over, and returns
// how long one takes.
func endContexts(n int) time.Duration {
	parent, cancel := context.WithCancel(context.Background())
	defer cancel()
	ends := make([]context.CancelCauseFunc, n)
	for i := range ends {
		_, ends[i] = context.WithCancelCause(parent)
	}
	lost := errors.New("lost")
	began := time.Now()
	for _, end := range ends {
		end(lost)
	}
	return time.Since(began) / time.Duration(n)
}
