package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/go-rlock/rlock/rlock/once"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A key that an operation uses may have data of another program, of any type: the operation says
// so, or works all the same, and leaves the data as they are. Package redisson has its own.

// foreign are data of other programs: commands without the key.
var foreign = map[string][]string{
	"string":             {"SET", "text"},
	"list":               {"RPUSH", "one", "two"},
	"set":                {"SADD", "one", "two"},
	"hash":               {"HSET", "name", "value"},
	"hash of six fields": {"HSET", "s", "small", "u", "up", "b", "big", "r", "red", "k", "kind", "v", "value"}, // as a value of once has
	"zset":               {"ZADD", "10", "alice", "20", "bob"},
	"stream":             {"XADD", "1-1", "field", "value"},
}

// isOurs reports whether data of that type may be ours: then nothing tells them apart. The queues
// have names of our own, and those of permits are Redisson's.
func isOurs(key, kind string) bool {
	return kind == "zset" && (strings.HasPrefix(key, "rlock_queue:") || strings.HasSuffix(key, ":timeout"))
}

// A user does something. begin comes before the data, and use after it.
type user struct {
	begin func(ctx context.Context) error
	use   func(ctx context.Context) error
}

// A party has two clients, and a group of the first.
type party struct {
	*testbed.World
	here, there *testbed.Client
	hold        *rlock.Hold
	pass        string
	once        *once.Group
}

func (p *party) locks(of func(*rlock.Client) *rlock.Lock) map[string]user {
	here, there := of(p.here.Client), of(p.there.Client)
	acquire := func(ctx context.Context) (err error) {
		p.hold, err = here.Acquire(ctx)
		return err
	}
	elsewhere := func(ctx context.Context) (err error) {
		p.hold, err = there.Acquire(ctx)
		return err
	}
	pass := func(ctx context.Context) error {
		h, err := here.Acquire(ctx)
		if err == nil {
			p.pass, err = h.Pass(ctx, time.Minute)
		}
		return err
	}
	held := func(do func(h *rlock.Hold, ctx context.Context) error) user {
		return user{acquire, func(ctx context.Context) error { return do(p.hold, ctx) }}
	}
	waits := func(options ...rlock.AcquireOption) user {
		return user{elsewhere, func(ctx context.Context) error {
			err := here.Do(ctx, testbed.Nothing, append(options, rlock.WithWait(3*time.Second))...)
			return errors.Join(err, p.hold.Release(ctx))
		}}
	}
	return map[string]user{
		"Do": {nil, func(ctx context.Context) error { return here.Do(ctx, testbed.Nothing) }},
		"Lock": {nil, func(ctx context.Context) error {
			return errors.Join(here.Lock(ctx), unlocks(here, ctx))
		}},
		"LockFor": {nil, func(ctx context.Context) error {
			return errors.Join(here.LockFor(ctx, time.Second), unlocks(here, ctx))
		}},
		"TryLock": {nil, func(ctx context.Context) error {
			return errors.Join(testbed.ErrorOf(here.TryLock(ctx)), unlocks(here, ctx))
		}},
		"IsLocked":    {nil, func(ctx context.Context) error { return testbed.ErrorOf(here.IsLocked(ctx)) }},
		"TTL":         {nil, func(ctx context.Context) error { return testbed.ErrorOf(here.TTL(ctx)) }},
		"ForceUnlock": {nil, func(ctx context.Context) error { return testbed.ErrorOf(here.ForceUnlock(ctx)) }},
		"inspect": {nil, func(ctx context.Context) error {
			return testbed.ErrorOf(inspect.Of(p.here.Client).Lock(ctx, testbed.Key))
		}},
		"waits":    waits(),
		"is told":  waits(rlock.WithProgress(func(int, int) {})),
		"few wait": waits(rlock.WithMaxWaiters(5)),
		"waits for a release": {elsewhere, func(ctx context.Context) error {
			result := testbed.Start(func() error { return here.Do(ctx, testbed.Nothing, rlock.WithWait(10*time.Second)) })
			synctest.Wait()
			return errors.Join(p.hold.Release(ctx), <-result)
		}},
		"Release":  held(func(h *rlock.Hold, ctx context.Context) error { return h.Release(ctx) }),
		"renewals": held(func(h *rlock.Hold, ctx context.Context) error { time.Sleep(11 * time.Second); return h.Release(ctx) }),
		"Write": held(func(h *rlock.Hold, ctx context.Context) error {
			return errors.Join(testbed.ErrorOf(h.Exec(ctx, "return 1", nil, nil)), h.Release(ctx))
		}),
		"ReleaseWith": held(func(h *rlock.Hold, ctx context.Context) error {
			return testbed.ErrorOf(h.ReleaseWith(ctx, "return 1", nil, nil))
		}),
		"Pass": held(func(h *rlock.Hold, ctx context.Context) error { return testbed.ErrorOf(h.Pass(ctx, time.Second)) }),
		"Resume": {pass, func(ctx context.Context) error {
			h, err := p.there.Resume(ctx, p.pass, rlock.WithWait(time.Second))
			if err == nil {
				err = h.Release(ctx)
			}
			return err
		}},
		"force unlock of a holder": {elsewhere, func(ctx context.Context) error {
			err := testbed.ErrorOf(here.ForceUnlock(ctx))
			return errors.Join(err, p.hold.Release(ctx))
		}},
	}
}

// unlocks unlocks a lock that the caller holds.
func unlocks(l *rlock.Lock, ctx context.Context) error {
	if !l.IsHeld(ctx) {
		return nil
	}
	return l.Unlock(ctx)
}

func (p *party) onceUsers() map[string]user {
	do := func(ctx context.Context) error {
		_, _, err := p.once.Do(ctx, testbed.Key, func(context.Context) ([]byte, error) { return []byte("value"), nil })
		return err
	}
	return map[string]user{
		"Do":     {nil, do},
		"again":  {do, do},
		"Fresh":  {do, func(ctx context.Context) error { return do(once.Fresh(ctx)) }},
		"Forget": {nil, func(ctx context.Context) error { return p.once.Forget(ctx, testbed.Key) }},
		"forget": {do, func(ctx context.Context) error { return p.once.Forget(ctx, testbed.Key) }},
	}
}

// keys returns the keys that the clients have named in commands.
func (p *party) keys() (keys []string) {
	add := func(key string) {
		if !strings.Contains(key, "channel") && !strings.Contains(key, p.here.ID()) && !strings.Contains(key, p.there.ID()) && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for _, f := range append(p.here.Net.Sent(""), p.there.Net.Sent("")...) {
		switch command := strings.ToUpper(f.Args[0]); {
		case command == "EVALSHA", command == "EVAL":
			n, _ := strconv.Atoi(f.Args[2])
			for _, key := range f.Args[3 : 3+n] {
				add(key)
			}
		case !strings.HasSuffix(command, "SUBSCRIBE") && len(f.Args) > 1 && strings.Contains(f.Args[1], testbed.Key):
			add(f.Args[1])
		}
	}
	return keys
}

// says has the errors with which a call may refuse foreign data.
var says = []error{rlock.ErrWrongType, rlock.ErrLost, rlock.ErrFenced, rlock.ErrNotPassed, rlock.ErrNotAcquired, rlock.ErrNotHeld, rlock.ErrTooManyWaiters}

func TestForeignDataAreRefusedAndLeftAlone(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	users := map[string]func(p *party) map[string]user{"once": (*party).onceUsers}
	for kind, of := range testbed.LocksOf() {
		users[kind] = func(p *party) map[string]user { return p.locks(of) }
	}
	testbed.EachBubble(t, users, func(t *testing.T, w *testbed.World, of func(*party) map[string]user) {
		for what := range of(newParty(w)) {
			p := newParty(w)
			p.judge(t, what, of(p)[what])
		}
	})
}

func newParty(w *testbed.World) *party {
	p := &party{World: w, here: w.NewClient(), there: w.NewClient()}
	p.once = once.New(p.here.Client, once.Options{Keep: time.Minute})
	w.T.Cleanup(p.once.Close)
	return p
}

// judge lets the user do what it does beside data of each type at each key that it uses.
func (p *party) judge(t *testing.T, what string, u user) {
	raw := p.Outsider()
	do := func(words ...string) any {
		reply, err := raw.Do(p.Ctx, raw.B().Arbitrary(words...).Build()).ToAny()
		require.NoError(t, err, words)
		return reply
	}
	dump := func(key string) string {
		read := map[string][]string{"string": {"GET", key}, "list": {"LRANGE", key, "0", "-1"}, "set": {"SMEMBERS", key}, "hash": {"HGETALL", key}, "zset": {"ZRANGE", key, "0", "-1", "WITHSCORES"}, "stream": {"XRANGE", key, "-", "+"}}
		kind := do("TYPE", key).(string)
		if read[kind] == nil {
			return kind
		}
		return fmt.Sprint(kind, " ", do(read[kind]...), " ", do("PTTL", key))
	}
	begin := func(me context.Context) {
		if u.begin != nil {
			require.NoError(t, u.begin(me))
		}
	}
	do("FLUSHALL")
	me := p.Caller()
	begin(me)
	documented(t, u.use(me), what)
	keys := p.keys()
	require.NotEmpty(t, keys)
	for _, key := range keys {
		for kind, data := range foreign {
			if isOurs(key, kind) {
				continue
			}
			do("FLUSHALL")
			me := p.Caller()
			begin(me)
			synctest.Wait()
			do("DEL", key)
			do(slices.Insert(slices.Clone(data), 1, key)...)
			before, began := dump(key), time.Now()
			err := u.use(me)
			what := fmt.Sprintf("%s, where %s is a %s: %v", what, key, kind, err)
			documented(t, err, what)
			assert.LessOrEqual(t, time.Since(began), 15*time.Second, what)
			assert.Equal(t, before, dump(key), what)
		}
	}
}

func documented(t *testing.T, err error, what string) {
	t.Helper()
	if err != nil && !slices.ContainsFunc(says, func(e error) bool { return errors.Is(err, e) }) {
		assert.Fail(t, "an error without a sentinel", "%s: %v", what, err)
	}
}
