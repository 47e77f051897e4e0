package driver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Questions to Redis about a lock, apart from the commands of tenures.

// questions are the questions to Redis about locks of one kind.
type questions struct {
	// holders returns the owners that an unlock by force has to release.
	holders func(ctx context.Context, l *NamedLock) ([]string, error)
	// locked reports whether the lock is held, and ttl for how long.
	locked func(ctx context.Context, l *NamedLock) (bool, error)
	ttl    func(ctx context.Context, l *NamedLock) (time.Duration, error)
}

// IsLocked asks Redis, unless this client holds the lock in a way that Redis may not show yet: by a
// writer that reads as well, or reads only by now. Until Redis confirms that, no other client can
// hold the lock in another way.
func (l *NamedLock) IsLocked(ctx context.Context) (bool, error) {
	if locked, known := l.knownHere(); known {
		return locked, nil
	}
	if err := l.awaitConnection(ctx); err != nil {
		return false, err
	}
	return kinds[l.Name.KindID].asks.locked(ctx, l)
}

// TTL asks Redis for how long the lock is held if no lease is renewed: 0 if it is free, -1 if its
// key does not expire.
func (l *NamedLock) TTL(ctx context.Context) (time.Duration, error) {
	if err := l.awaitConnection(ctx); err != nil {
		return 0, err
	}
	return kinds[l.Name.KindID].asks.ttl(ctx, l)
}

// awaitConnection waits for the first connection of the client.
func (l *NamedLock) awaitConnection(ctx context.Context) error {
	if err := l.driver.Redis.AwaitConnection(ctx, &l.Name.Keys); err != nil {
		return fmt.Errorf("rlock: look at %q: %w", l.Name.Key, wire.Explain(err))
	}
	return nil
}

// fields returns the fields of the lock's hash: none if the lock is free.
func fields(ctx context.Context, l *NamedLock) ([]string, error) {
	return ask(ctx, l, owners, "HKEYS")
}

// owners decodes the fields of a hash, or the members of a sorted set.
func owners(reply rueidis.RedisResult) ([]string, error) {
	all, err := reply.AsStrSlice()
	for _, owner := range all {
		if !wire.MayOwn(owner) && (owner != modeField || len(all) == 1) {
			return nil, wire.NotALock(owner)
		}
	}
	return all, err
}

// ask sends a command that reads the lock's key, and decodes the reply.
func ask[T any](ctx context.Context, l *NamedLock, decode func(rueidis.RedisResult) (T, error), command ...string) (reply T, err error) {
	err = l.survey(ctx, func(replies []rueidis.RedisResult) (err error) {
		reply, err = decode(replies[0])
		return err
	}, l.driver.Redis.Arbitrary(l.Name.Key, command...))
	return reply, err
}

// survey sends commands that read the lock, and has their replies decoded.
func (l *NamedLock) survey(ctx context.Context, read func([]rueidis.RedisResult) error, commands ...rueidis.Completed) error {
	n := l.Name
	if n.Err != nil {
		return n.Err
	}
	replies, err := l.driver.Redis.Survey(ctx, n.Slot, commands...)
	if err == nil {
		err = wire.Explain(read(replies))
	}
	if err != nil {
		return fmt.Errorf("rlock: look at %q: %w", n.Key, err)
	}
	return nil
}

// keyTTL returns the TTL of the lock's key.
func keyTTL(ctx context.Context, l *NamedLock) (time.Duration, error) {
	ms, err := ask(ctx, l, rueidis.RedisResult.AsInt64, "PTTL")
	switch {
	case err != nil || ms == -2:
		return 0, err
	case ms == -1:
		return -1, nil
	}
	return wire.Milliseconds(ms), nil
}

// keyExists reports whether the lock's key is there.
func keyExists(ctx context.Context, l *NamedLock) (bool, error) {
	n, err := ask(ctx, l, rueidis.RedisResult.AsInt64, "EXISTS")
	return n > 0, err
}

// A read-write lock is a hash of the mode, the readers and the writer.

const (
	modeField   = "mode"
	writeSuffix = ":write"
)

// readersOrWriters returns the readers only while there is no writer, as Redisson's
// forceUnlockAsync.
func readersOrWriters(ctx context.Context, l *NamedLock) ([]string, error) {
	fields, err := fields(ctx, l)
	if l.Shared && len(ownersAmong(fields, false)) > 0 {
		return nil, nil
	}
	return ownersAmong(fields, l.Shared), err
}

func readOrWritten(ctx context.Context, l *NamedLock) (bool, error) {
	fields, err := fields(ctx, l)
	return len(ownersAmong(fields, l.Shared)) > 0, err
}

// ownersAmong returns the owners that read, or write, by the fields.
func ownersAmong(fields []string, read bool) (owners []string) {
	for _, field := range fields {
		owner, writes := strings.CutSuffix(field, writeSuffix)
		if field != modeField && writes != read {
			owners = append(owners, owner)
		}
	}
	return owners
}

// A semaphore is a sorted set of the owners and the ends of their leases.

// permitHolders returns the owners in Redis, with those whose leases have ended.
func permitHolders(ctx context.Context, l *NamedLock) ([]string, error) {
	return ask(ctx, l, owners, "ZRANGEBYSCORE", "0", "+inf")
}

func allPermitsHeld(ctx context.Context, l *NamedLock) (bool, error) {
	held, err := l.permitsHeld(ctx)
	return err == nil && sumOf(held) >= l.Name.Permits, err
}

func firstPermitEnds(ctx context.Context, l *NamedLock) (time.Duration, error) {
	held, err := l.permitsHeld(ctx)
	if err != nil || sumOf(held) < l.Name.Permits {
		return 0, err
	}
	return slices.MinFunc(held, func(a, b wire.Permit) int { return cmp.Compare(a.Left, b.Left) }).Left, nil
}

// sumOf returns the number of permits that the owners hold.
func sumOf(held []wire.Permit) (n int) {
	for _, p := range held {
		n += p.Count
	}
	return n
}

// permitsHeld returns the permits that are held, by the clock of the server.
func (l *NamedLock) permitsHeld(ctx context.Context) (held []wire.Permit, err error) {
	r := l.driver.Redis
	err = l.survey(ctx, func(replies []rueidis.RedisResult) (err error) {
		held, err = wire.PermitsOf(replies[0], replies[1])
		return err
	}, r.Arbitrary(l.Name.Key, "ZRANGE", "0", "-1", "WITHSCORES"), r.Client.B().Time().Build())
	return held, err
}

// The locks as package diag reads them: see diag.Source. A look takes the mutex of a shard many
// times, for less than a millisecond each, and copies only what may change under it.

// Counts returns the sum of the counters of all shards, each read at a moment during the call.
func (c *Client) Counts() (sum Counts) {
	for s := range c.allShards {
		s.glance(func() { sum.Add(&s.counts) })
	}
	return sum
}

// atOnce is the number of levels and waits that are read under the mutex at once. The levels of one
// lock may exceed it.
const atOnce = 1024

// A lockReading is the part of one lock that a reader has read since it took the mutex.
type lockReading struct {
	name    *Name
	until   core.SafeTime // the end of the time for which the holders may be believed
	levels  int           // the number of its levels among those that were read
	waits   int
	permits int        // the number of permits that the owner has of a semaphore; 0 for other locks
	tenure  core.ID    // the tenure that is held while calls wait, or zero
	holder  core.Level // the first level of that tenure
}

// A lockReader reads locks. It is used by one goroutine.
type lockReader struct {
	client *Client
	look   terms.Look
	locate core.Time // the time before which calls began that are to find out where they were made
	locks  []lockReading
	levels []core.Level
	calls  []terms.Wait

	view  terms.View
	began core.Time // the beginning of the last call that was read, of a lock that is read in parts
	same  int       // the number of calls with this beginning that were read
}

// ReadLocks calls yield for each lock that look asks for, without a mutex.
func (c *Client) ReadLocks(look terms.Look, yield func(*terms.View)) {
	r := &lockReader{client: c, look: look}
	if !look.Locate.IsZero() {
		r.locate = core.Time(look.Locate.Sub(c.clock.start))
	}
	for s := range c.allShards {
		var all []*lockState
		s.glance(func() {
			if look.Holds || s.counts.Waiting > 0 {
				all = slices.Collect(s.all)
			}
		})
		for len(all) > 0 {
			read := 0
			s.glance(func() { read = r.readSome(s, all) })
			all = all[read:]
			r.yieldAll(yield)
		}
	}
}

// readSome reads some of the locks, and returns the number of locks that it has read completely.
// The mutex is held.
func (r *lockReader) readSome(s *shard, all []*lockState) (done int) {
	r.locks, r.levels, r.calls = r.locks[:0], r.levels[:0], r.calls[:0]
	now := r.client.clock.now()
	for _, l := range all {
		if done+len(r.levels)+len(r.calls) >= atOnce {
			break
		}
		if s.has(l) && !r.readLock(l, now) {
			break
		}
		r.began, r.same = 0, 0
		done++
	}
	return done
}

// readLock reads a lock, from where it stopped before, and reports whether it has read all of it.
func (r *lockReader) readLock(l *lockState, now core.Now) (all bool) {
	one, first, held := lockReading{name: l.name}, r.same == 0, l.IsHeld()
	if first && held && r.look.Holds {
		one.until = l.TrustedUntil()
		if l.name.Permits > 0 {
			one.permits = int(l.Held().More()) + 1
		}
		r.levels = append(r.levels, l.Levels()...)
		one.levels = len(l.Levels())
	}
	all = !r.look.Waits || r.readCalls(l, &one)
	if held && one.waits > 0 {
		one.tenure, one.holder = l.Held().ID, l.Levels()[0]
	}
	if one.levels+one.waits > 0 {
		r.locks = append(r.locks, one)
	}
	return all
}

// readCalls reads the calls that wait, in the order in which they began.
func (r *lockReader) readCalls(l *lockState, one *lockReading) (all bool) {
	skip := r.same
	for w := range l.Waiters {
		w := w.Tag.(*waiter)
		switch {
		case w.Began < r.began || !w.waits:
			continue
		case w.Began == r.began && skip > 0:
			skip--
			continue
		case len(r.calls) >= atOnce:
			return false
		}
		if w.Began != r.began {
			r.began, r.same = w.Began, 0
		}
		r.same++
		one.waits++
		if w.site == nil && w.Began <= r.locate && !w.locates {
			w.locates = true
			w.wake()
		}
		r.calls = append(r.calls, terms.Wait{
			Owner: terms.Owner{ID: w.req.Owner.ID}, Goroutine: w.req.Goroutine(), Reads: w.req.Shared, Since: r.client.clock.timeOf(w.Began),
			Site: w.site, Whole: w.req.Whole, Holder: w.holder, Logged: w.logged, Endless: w.endless, Standing: w.req.Standing,
		})
	}
	return true
}

// yieldAll calls yield for what was read.
func (r *lockReader) yieldAll(yield func(*terms.View)) {
	levels, calls, clock, v := r.levels, r.calls, &r.client.clock, &r.view
	for i := range r.locks {
		one := &r.locks[i]
		v.Name, v.Kind, v.ReadKind = one.name.Key, one.name.KindOf(false), one.name.KindOf(true)
		v.ValidUntil, v.Permits = clock.timeOfSafe(one.until), one.permits
		v.Levels, v.Waits = v.Levels[:0], calls[:one.waits]
		for j := range levels[:one.levels] {
			v.Levels = append(v.Levels, levelView(&levels[j], clock))
		}
		v.Tenure, v.Holder = "", terms.Level{}
		if one.tenure != (core.ID{}) {
			v.Tenure, v.Holder = r.client.textOf(one.tenure, 0, 0)[:wire.TenureLen], levelView(&one.holder, clock)
		}
		levels, calls = levels[one.levels:], calls[one.waits:]
		yield(v)
	}
}

// levelView returns the level for package diag.
func levelView(v *core.Level, clock *clock) terms.Level {
	l := terms.Level{
		Owner: terms.Owner{ID: uint64(v.Owner)}, Goroutine: callerOf(v), Reads: v.Mode == core.Shared, First: v.First, Since: clock.timeOf(v.Since), Site: siteOf(v),
	}
	if h, ok := v.Handle.(*hold); ok {
		l.Standing, l.Dropped = h.standing, h.life.IsDropped()
		if h.isHeld() {
			l.Whole = h.whole
		}
		if l.Dropped && h.whole == nil {
			l.Release = func() { _ = h.Release(context.Background()) }
		}
	}
	if v.Until != core.NeverSafe {
		l.Until = clock.timeOfSafe(v.Until)
	}
	return l
}

// callerOf returns the goroutine that acquired the level, 0 if it is not known.
func callerOf(v *core.Level) uint64 {
	if h, ok := v.Handle.(*hold); ok {
		return h.by
	}
	if v.Guest {
		return 0
	}
	return levelOwner(v).Goroutine()
}

// siteOf returns the place in the program that acquired the level, or nil if that is not recorded.
func siteOf(v *core.Level) *terms.Site {
	site, _ := v.Info.(*terms.Site)
	return site
}
