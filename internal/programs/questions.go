package programs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/once/idempotent"
)

// Calls that take no lock, and calls that must be refused.
func init() {
	lanes = append(lanes,
		row{"ask", 6, nil, func(g *generator, o *Op) {
			o.Lock = g.anyLock()
			o.Ctx = Choice{Name: "timeout", D: some(g, 5*ms, time.Second, 5*time.Second)}
			o.add(Choice{Name: "what", N: g.IntN(len(questions))})
		}, func(c *caller, o *Op) {
			ctx, cancel := context.WithTimeout(c.run.ctx, o.Ctx.D)
			defer cancel()
			q := questions[o.arg("what").N]
			err := q.ask(c, ctx, c.m.lock(o.Lock))
			c.question(q.name, err, ctx)
		}},
		row{"refused", 3, nil, func(g *generator, o *Op) { o.add(Choice{Name: "what", N: g.IntN(len(refusals))}) },
			func(c *caller, o *Op) {
				what := refusals[o.arg("what").N]
				ctx, cancel := context.WithTimeout(c.run.ctx, 5*time.Second)
				defer cancel()
				err := what.call(c, ctx)
				if !c.run.face.error(err, what.name, what.with) && !errors.Is(err, rlock.ErrClosed) && (c.run.sane() || err == nil) {
					c.run.problem("%s returns %v, and not %v", what.name, err, what.with)
				}
			}},
	)
}

// The questions that a client or Redis answers.
var questions = []struct {
	name string
	ask  func(c *caller, ctx context.Context, l *rlock.Lock) error
}{
	{"rlock.Lock.IsLocked", func(c *caller, ctx context.Context, l *rlock.Lock) error { _, err := l.IsLocked(ctx); return err }},
	{"rlock.Client.Check", func(c *caller, ctx context.Context, _ *rlock.Lock) error { return c.m.main().Check(ctx) }},
	{"rlock.Lock.TTL", func(c *caller, ctx context.Context, l *rlock.Lock) error {
		left, err := l.TTL(ctx)
		if longest := max(4*time.Second, c.run.program.World.Lease) + 500*ms; err == nil && (left < 0 || left > longest) {
			c.run.problem("%s: the time left is %v", l.Name(), left)
		}
		return err
	}},
	{"rlock.Lock.Name", func(c *caller, ctx context.Context, l *rlock.Lock) error {
		if l.Name() == "" {
			return errors.New("a lock without a name")
		}
		return nil
	}},
	{"inspect.Inspector.Lock", func(c *caller, ctx context.Context, l *rlock.Lock) error {
		name := l.Name()
		if strings.Contains(name, ",") || name == "r" {
			name = "rw"
		}
		state, err := inspect.Of(c.m.main()).Lock(ctx, name)
		if err == nil && (state.Name != name || state.HolderCount < 0 || state.Waiting < 0 || state.Foreign < -1) {
			c.run.problem("Inspect shows %+v", state)
		}
		if n := len(state.Queue); err == nil && n > 0 && state.HolderCount > 0 {
			c.letThrough(state, state.Queue[c.random.IntN(n)])
		}
		if errors.Is(err, rlock.ErrWrongType) {
			return nil // it is no transaction: a guest may have left its lock meanwhile
		}
		return err
	}},
	{"inspect.Inspector.Locks", func(c *caller, ctx context.Context, l *rlock.Lock) error {
		var last error
		for name, err := range inspect.Of(c.m.main()).Locks(ctx, "") {
			if last = err; err == nil && name == "" {
				c.run.problem("Locks yields a lock without a name")
			}
		}
		f := c.run.face
		watch := on(f, inspect.Of(c.m.main()).Watch)()
		names, _ := on(f, watch.Names)(ctx)
		states, errs := on(f, watch.Locks)(ctx, names)
		for i, state := range states {
			if errs[i] == nil && state.Name != names[i] {
				c.run.problem("a Watch shows %+v for %q", state, names[i])
			}
		}
		return last
	}},
	{"inspect.Inspector.Held", func(c *caller, ctx context.Context, l *rlock.Lock) error {
		for _, h := range inspect.Of(c.m.main()).Held() {
			if h.Name == "" || h.Depth < 1 || h.Owner == 0 || time.Since(h.Since) < 0 {
				c.run.problem("Held shows %+v", h)
			}
		}
		return nil
	}},
	{"inspect.Inspector.Stats", func(c *caller, ctx context.Context, l *rlock.Lock) error {
		s := inspect.Of(c.m.main()).Stats()
		if s.Held < 0 || s.Waiting < 0 || s.Acquired < s.AcquiredByHandoff || s.Renewals < s.RenewalsFailed {
			c.run.problem("Stats shows %+v", s)
		}
		if sum := on(c.run.face, s.Add)(s); sum.Acquired != 2*s.Acquired {
			c.run.problem("Add shows %+v", sum)
		}
		return nil
	}},
}

// The calls that must be refused, whatever Redis does.
var refusals = []struct {
	name string
	with error
	call func(c *caller, ctx context.Context) error
}{
	{"rlock.ErrInvalidName", rlock.ErrInvalidName, func(c *caller, ctx context.Context) error { return c.m.main().NewLock("").Lock(ctx) }},
	{"rlock.ErrInvalidConfig", rlock.ErrInvalidConfig, func(c *caller, ctx context.Context) error {
		return c.m.main().NewSemaphore("s", 0).Lock(ctx)
	}},
	{"rlock.ErrInvalidConfig", rlock.ErrInvalidConfig, func(c *caller, ctx context.Context) error { return rlock.NewMultiLock().Lock(ctx) }},
	{"rlock.ErrInvalidConfig", rlock.ErrInvalidConfig, func(c *caller, ctx context.Context) error { return new(rlock.Lock).Lock(ctx) }},
	{"rlock.ErrInvalidConfig", rlock.ErrInvalidConfig, func(c *caller, ctx context.Context) error {
		_, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}}, Advanced: rlock.Advanced{HandoffTime: -1}})
		return err
	}},
	{"rlock.ErrInvalidLease", rlock.ErrInvalidLease, func(c *caller, ctx context.Context) error { return c.m.main().NewLock("p").LockFor(ctx, -1) }},
	{"rlock.ErrInvalidPass", rlock.ErrInvalidPass, func(c *caller, ctx context.Context) error {
		_, err := c.m.main().Resume(ctx, "no pass")
		return err
	}},
	{"rlock.ErrNotHeld", rlock.ErrNotHeld, func(c *caller, ctx context.Context) error {
		return c.m.main().NewLock("p").Unlock(rlock.WithOwner(ctx, on(c.run.face, rlock.NewOwner)()))
	}},
	{"rlock.ErrNoToken", rlock.ErrNoToken, func(c *caller, ctx context.Context) error {
		_, err := c.m.main().NewLock("p").Token(ctx)
		return err
	}},
	{"idempotent.ErrInvalidResponse", idempotent.ErrInvalidResponse, func(c *caller, ctx context.Context) error {
		return c.m.guard.Settle(ctx, "no request has this key", idempotent.Response{Status: 42})
	}},
	{"rlock.ErrWrongType", rlock.ErrWrongType, func(c *caller, ctx context.Context) error {
		a, key := c.run.admin[0], c.run.program.World.Prefix+"data"
		if err := a.Do(ctx, a.B().Set().Key(key).Value("data").Px(time.Minute).Build()).Error(); err != nil {
			return err
		}
		hold, err := c.m.main().NewLock("data").Acquire(ctx, rlock.WithWait(0))
		if err == nil && c.run.flushed.Load() {
			_ = hold.Release(ctx)
			err = rlock.ErrWrongType // the key was deleted meanwhile
		}
		return err
	}},
}

// shown asks Redis whether it shows a hold that is valid, unless a fault makes Redis forget the
// hold.
func (c *caller) shown(*Op) {
	g, r := c.in, c.run
	if r.program.World.Forgets {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, 5*time.Second)
	defer cancel()
	if g.call.lock.group() {
		c.shownByParts(ctx)
		return
	}
	k, i := g.call, inspect.Of(g.call.m.main())
	r.mu.Lock()
	owner := g.root().call.seen.owner
	r.mu.Unlock()
	held := slices.ContainsFunc(i.Held(), func(h inspect.Held) bool {
		kind := string(h.Kind) == k.lock.Kind || g.root().nested && (h.Kind == "write" || h.Kind == "read")
		return h.Owner == owner && h.Name == k.lock.Name && kind && h.Permits == k.permits && h.Depth > 0 && !h.Since.After(time.Now())
	})
	if g.valid() && !held && owner != 0 {
		r.problem("%s: the client does not list it as held: %+v", k, i.Held())
	}
	before, until := g.valid(), time.Time{}
	if g.hold != nil {
		until = g.hold.ValidUntil()
	}
	locked, err := g.lock.IsLocked(ctx)
	left, failed := g.lock.TTL(ctx)
	ends := time.Now().Add(left) // or sooner: the answer was under way
	state, unread := i.Lock(ctx, k.lock.Name)
	at := time.Now()
	if errors.Join(err, failed, unread) != nil || !before || !g.valid() {
		return
	}
	if g.hold != nil && until.After(g.hold.ValidUntil()) { // its client has shortened the lease meanwhile
		until = g.hold.ValidUntil()
	}
	mine := false
	for _, h := range state.Holders {
		if strings.HasPrefix(h.Owner, i.ID()) && h.Permits == k.permits && (!h.Shared || k.lock.Kind == "read") && !h.Foreign && h.Count > 0 {
			mine = true
			locked = locked || k.permits > 0 // a semaphore counts as locked while no permit is free
			if end := at.Add(h.Lease); end.After(ends) {
				ends = end
			}
		}
	}
	if !mine || !locked || ends.Before(until) && g.lasts == 0 && r.program.World.Lease >= claim {
		r.problem("%s: Redis does not show the holder, which is valid until %v: %v, for %v: %+v", k, time.Until(until), locked, time.Until(ends), state)
	}
	since := r.now() - g.root().since // the lease of a claim, or of a former owner, is replaced
	most := max(r.program.World.Lease, g.root().longest, claim-since)
	if r.sane() && r.ground.Virtual && !k.shares && since > r.slack() && left > most+r.slack() {
		r.problem("%s: Redis shows a lease of %v, and its levels ask for %v at most", k, left, most)
	}
}

// claim is the lease of a lock that is granted by the queue. If the client's lease is shorter, the
// first renewal makes it shorter, perhaps between two looks, and then the client believes in a
// later end.
const claim = 2 * time.Second

// shownByParts is shown for a lock over several: all parts are held for as long as the lock is
// valid, and a red lock on a majority.
func (c *caller) shownByParts(ctx context.Context) {
	g, r := c.in, c.run
	if g.hold == nil {
		return
	}
	until := g.hold.ValidUntil()
	left, found := time.Until(until), ""
	shows := func(server int, name string) (held, told bool) {
		if server > 0 && int64(server) == r.away.Load() {
			return true, true // it had the lock, or lets nobody else have it
		}
		key, a := r.program.World.Prefix+name, r.admin[server]
		owners, err := a.Do(ctx, a.B().Hkeys().Key(key).Build()).AsStrSlice()
		if err != nil {
			return false, false
		}
		ms, err := a.Do(ctx, a.B().Pttl().Key(key).Build()).AsInt64()
		found += fmt.Sprintf(" %q for %d ms", owners, ms)
		mine := func(owner string) bool { return strings.Contains(owner, inspect.Of(g.call.m.clients[server]).ID()) }
		return slices.ContainsFunc(owners, mine) && time.Until(until) <= time.Duration(ms+2)*time.Millisecond, err == nil
	}
	for _, name := range g.call.lock.names() {
		servers, shown := 1, 0
		if name == red {
			servers = len(r.admin)
		}
		for i := range servers {
			held, told := shows(i, name)
			if !told {
				return
			}
			if held {
				shown++
			}
		}
		if shown <= servers/2 && !until.IsZero() && g.hold.ValidUntil().Equal(until) {
			r.problem("%s: it is valid for %v, and %d of %d servers show %s:%s", g.call, left, shown, servers, name, found)
		}
	}
}
