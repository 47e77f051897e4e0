package calls_test

import (
	"context"
	"go/ast"
	"go/doc"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/elect"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/go-rlock/rlock/rlock/once"
	"github.com/go-rlock/rlock/rlock/once/idempotent"
	"github.com/go-rlock/rlock/rlock/redisson"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The exported names that take a context and need not return when it ends, and why.
var unbounded = map[string]string{
	"rlock.Lock.Unlock":             "an unlock completes, within three seconds",
	"rlock.Hold.Release":            "the same",
	"rlock.Hold.ReleaseWith":        "the same",
	"rlock.Lock.ForceUnlock":        "it is not known what a force without an answer has done, so it completes as an unlock does",
	"rlock.Hold.Pass":               "the same",
	"redisson.Permit.Release":       "the same, within five seconds",
	"rlock.Hold.With":               "no call",
	"rlock.Wanted":                  "no call",
	"rlock.OwnerFrom":               "no call",
	"rlock.WithOwner":               "no call",
	"once.Fresh":                    "no call",
	"once.HoldOf":                   "no call",
	"idempotent.Key":                "no call",
	"idempotent.NotDone":            "no call",
	"inspect.Inspector.ForceUnlock": "as that of a Lock",
}

// withContext returns the exported functions and methods of a package that take a context.
func withContext(t *testing.T, name, dir string) (names []string) {
	p := testbed.Exported(t, name, dir)
	add := func(of string, f *doc.Func) {
		for _, param := range f.Decl.Type.Params.List {
			if s, ok := param.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Context" {
				names = append(names, name+"."+of+f.Name)
			}
		}
	}
	for _, f := range p.Funcs {
		add("", f)
	}
	for _, of := range p.Types {
		for _, f := range of.Funcs {
			add("", f)
		}
		for _, m := range of.Methods {
			add(of.Name+".", m)
		}
	}
	return names
}

// callsWithContext returns a call of each exported name that takes a context. It prepares the calls
// while Redis answers.
func callsWithContext(t *testing.T, w *testbed.World, p *testbed.Client) map[string]func(ctx context.Context) error {
	here := p.Client
	taken := func(name string, options ...rlock.AcquireOption) *rlock.Hold {
		hold, err := here.NewFencedLock(name).Acquire(w.Ctx, options...)
		require.NoError(t, err)
		return hold
	}
	free, me := here.NewFencedLock("free"), rlock.NewOwner()
	writes, extends := taken("writes"), taken("extends", rlock.WithMaxHold(time.Hour))
	moved, err := taken("moved").Pass(w.Ctx, time.Hour)
	require.NoError(t, err)
	mine := func(ctx context.Context) context.Context { return rlock.WithOwner(ctx, me) }

	group := once.New(here, once.Options{Keep: time.Hour})
	guard := idempotent.New(here, idempotent.Options{Who: func(*http.Request) string { return "" }})
	candidate := elect.New(here, "leader")
	t.Cleanup(func() { group.Close(); guard.Close() })
	value := func(context.Context) ([]byte, error) { return nil, nil }

	r := redisson.New(here)
	numbers, permits, latch := r.Semaphore("numbers"), r.PermitSemaphore("permits"), r.CountDownLatch("latch")
	permit := func() *redisson.Permit {
		one, err := permits.Acquire(w.Ctx, time.Hour)
		require.NoError(t, err)
		return one
	}
	require.NoError(t, permits.SetPermits(w.Ctx, 10))
	extended, byID, all := permit(), permit(), permit()
	_, err = latch.TrySetCount(w.Ctx, 3)
	require.NoError(t, err)

	look := inspect.Of(here)
	return map[string]func(ctx context.Context) error{
		"rlock.Lock.Acquire":    func(ctx context.Context) error { return testbed.ErrorOf(free.Acquire(ctx)) },
		"rlock.Lock.Do":         func(ctx context.Context) error { return free.Do(ctx, testbed.Nothing) },
		"rlock.Lock.HoldCount":  func(ctx context.Context) error { free.HoldCount(ctx); return nil },
		"rlock.Lock.IsHeld":     func(ctx context.Context) error { free.IsHeld(ctx); return nil },
		"rlock.Lock.IsLocked":   func(ctx context.Context) error { return testbed.ErrorOf(free.IsLocked(ctx)) },
		"rlock.Lock.Lock":       func(ctx context.Context) error { return free.Lock(mine(ctx)) },
		"rlock.Lock.LockFor":    func(ctx context.Context) error { return free.LockFor(mine(ctx), time.Hour) },
		"rlock.Lock.TTL":        func(ctx context.Context) error { return testbed.ErrorOf(free.TTL(ctx)) },
		"rlock.Lock.Token":      func(ctx context.Context) error { return testbed.ErrorOf(free.Token(ctx)) },
		"rlock.Lock.TryLock":    func(ctx context.Context) error { return testbed.ErrorOf(free.TryLock(mine(ctx))) },
		"rlock.Lock.TryLockFor": func(ctx context.Context) error { return testbed.ErrorOf(free.TryLockFor(mine(ctx), time.Hour, 0)) },
		"rlock.NewContext": func(ctx context.Context) error {
			option := w.Redis.Options()
			option.DialCtxFn = p.Net.Dial
			client, err := rlock.NewContext(ctx, rlock.Config{Redis: option, Logger: testbed.Quiet})
			if err == nil {
				err = client.Close()
			}
			return err
		},
		"rlock.Client.Check":  here.Check,
		"rlock.Client.Resume": func(ctx context.Context) error { return testbed.ErrorOf(here.Resume(ctx, moved)) },
		"rlock.Hold.Exec":     func(ctx context.Context) error { return testbed.ErrorOf(writes.Exec(ctx, "return 1", nil, nil)) },
		"rlock.Hold.Extend":   func(ctx context.Context) error { return extends.Extend(ctx, 2*time.Hour) },
		"rlock.Hold.Write":    func(ctx context.Context) error { return testbed.ErrorOf(writes.Write(ctx, nil, []string{"PING"})) },

		"inspect.Watch.Names": func(ctx context.Context) error { return testbed.ErrorOf(look.Watch().Names(ctx)) },
		"inspect.Watch.Locks": func(ctx context.Context) error {
			_, errs := look.Watch().Locks(ctx, []string{"free"})
			return errs[0]
		},
		"inspect.Inspector.LetThrough": func(ctx context.Context) error {
			return look.LetThrough(ctx, inspect.Lock{Name: "free"}, inspect.Waiter{Owner: "4ea0a2a4-6f6f-8f7c-9d5c-2d8a3f9f1b11:7"}, 0)
		},
		"inspect.Inspector.Lock": func(ctx context.Context) error { return testbed.ErrorOf(look.Lock(ctx, "free")) },
		"inspect.Inspector.Locks": func(ctx context.Context) (last error) {
			for _, err := range look.Locks(ctx, "") {
				last = err
			}
			return last
		},

		"once.As": func(ctx context.Context) error {
			_, _, err := once.As(ctx, group, once.JSON[int](), "as", func(context.Context) (int, error) { return 0, nil })
			return err
		},
		"once.Group.Do":           func(ctx context.Context) error { _, _, err := group.Do(ctx, "do", value); return err },
		"once.Group.Forget":       func(ctx context.Context) error { return group.Forget(ctx, "do") },
		"idempotent.Guard.Forget": func(ctx context.Context) error { return guard.Forget(ctx, "forget") },
		"idempotent.Guard.Settle": func(ctx context.Context) error { return guard.Settle(ctx, "settle", idempotent.Response{Status: 200}) },

		"elect.Candidate.Do":      func(ctx context.Context) error { return candidate.Do(ctx, testbed.Nothing) },
		"elect.Candidate.Leader":  func(ctx context.Context) error { return testbed.ErrorOf(candidate.Leader(ctx)) },
		"elect.Candidate.Observe": func(ctx context.Context) error { _ = candidate.Observe(ctx, func(string) {}); return ctx.Err() },
		"elect.Candidate.Run": func(ctx context.Context) error {
			_ = candidate.Run(ctx, func(ctx context.Context, _ *rlock.Hold) error { <-ctx.Done(); return nil })
			return ctx.Err()
		},

		"redisson.Client.Inspect":                   func(ctx context.Context) error { return testbed.ErrorOf(r.Inspect(ctx, "numbers")) },
		"redisson.Client.Names":                     func(ctx context.Context) error { return testbed.ErrorOf(r.Names(ctx, "")) },
		"redisson.CountDownLatch.Await":             latch.Await,
		"redisson.CountDownLatch.Count":             func(ctx context.Context) error { return testbed.ErrorOf(latch.Count(ctx)) },
		"redisson.CountDownLatch.CountDown":         latch.CountDown,
		"redisson.CountDownLatch.Delete":            func(ctx context.Context) error { return testbed.ErrorOf(latch.Delete(ctx)) },
		"redisson.CountDownLatch.TrySetCount":       func(ctx context.Context) error { return testbed.ErrorOf(latch.TrySetCount(ctx, 1)) },
		"redisson.Permit.Extend":                    func(ctx context.Context) error { return extended.Extend(ctx, 2*time.Hour) },
		"redisson.PermitSemaphore.Acquire":          func(ctx context.Context) error { return testbed.ErrorOf(permits.Acquire(ctx, time.Hour)) },
		"redisson.PermitSemaphore.AcquireN":         func(ctx context.Context) error { return testbed.ErrorOf(permits.AcquireN(ctx, 2, time.Hour)) },
		"redisson.PermitSemaphore.AcquiredPermits":  func(ctx context.Context) error { return testbed.ErrorOf(permits.AcquiredPermits(ctx)) },
		"redisson.PermitSemaphore.AddPermits":       func(ctx context.Context) error { return permits.AddPermits(ctx, 1) },
		"redisson.PermitSemaphore.AvailablePermits": func(ctx context.Context) error { return testbed.ErrorOf(permits.AvailablePermits(ctx)) },
		"redisson.PermitSemaphore.Delete":           func(ctx context.Context) error { return testbed.ErrorOf(r.PermitSemaphore("other").Delete(ctx)) },
		"redisson.PermitSemaphore.Expire":           func(ctx context.Context) error { return testbed.ErrorOf(permits.Expire(ctx, time.Hour)) },
		"redisson.PermitSemaphore.Lease":            func(ctx context.Context) error { return testbed.ErrorOf(permits.Lease(ctx, byID.ID())) },
		"redisson.PermitSemaphore.Permits":          func(ctx context.Context) error { return testbed.ErrorOf(permits.Permits(ctx)) },
		"redisson.PermitSemaphore.Release":          func(ctx context.Context) error { return testbed.ErrorOf(permits.Release(ctx, byID.ID())) },
		"redisson.PermitSemaphore.ReleaseAll":       func(ctx context.Context) error { return testbed.ErrorOf(permits.ReleaseAll(ctx, all.ID())) },
		"redisson.PermitSemaphore.SetPermits":       func(ctx context.Context) error { return permits.SetPermits(ctx, 9) },
		"redisson.PermitSemaphore.TryAcquire":       func(ctx context.Context) error { return testbed.ErrorOf(permits.TryAcquire(ctx, time.Hour, time.Hour)) },
		"redisson.PermitSemaphore.TryAcquireN": func(ctx context.Context) error {
			return testbed.ErrorOf(permits.TryAcquireN(ctx, 2, time.Hour, time.Hour))
		},
		"redisson.PermitSemaphore.TrySetPermits": func(ctx context.Context) error { return testbed.ErrorOf(permits.TrySetPermits(ctx, 3)) },
		"redisson.PermitSemaphore.UpdateLease":   func(ctx context.Context) error { return testbed.ErrorOf(permits.UpdateLease(ctx, all.ID(), time.Hour)) },
		"redisson.Semaphore.Acquire":             func(ctx context.Context) error { return numbers.Acquire(ctx, 1) },
		"redisson.Semaphore.AddPermits":          func(ctx context.Context) error { return numbers.AddPermits(ctx, 1) },
		"redisson.Semaphore.AvailablePermits":    func(ctx context.Context) error { return testbed.ErrorOf(numbers.AvailablePermits(ctx)) },
		"redisson.Semaphore.Delete":              func(ctx context.Context) error { return testbed.ErrorOf(numbers.Delete(ctx)) },
		"redisson.Semaphore.DrainPermits":        func(ctx context.Context) error { return testbed.ErrorOf(numbers.DrainPermits(ctx)) },
		"redisson.Semaphore.Expire":              func(ctx context.Context) error { return testbed.ErrorOf(numbers.Expire(ctx, time.Hour)) },
		"redisson.Semaphore.Release":             func(ctx context.Context) error { return numbers.Release(ctx, 1) },
		"redisson.Semaphore.ReleaseIfExists":     func(ctx context.Context) error { return testbed.ErrorOf(numbers.ReleaseIfExists(ctx, 1)) },
		"redisson.Semaphore.TryAcquire":          func(ctx context.Context) error { return testbed.ErrorOf(numbers.TryAcquire(ctx, 1, time.Hour)) },
		"redisson.Semaphore.TrySetPermits":       func(ctx context.Context) error { return testbed.ErrorOf(numbers.TrySetPermits(ctx, 3)) },
	}
}

// Each exported function that takes a context returns when the context ends, or before: while Redis
// is silent, at once and when the connections are given up, and while Redis cannot be reached.
func TestEachCallReturnsWhenItsContextEnds(t *testing.T) {
	testbed.EachBubble(t, map[string]func(net *network.Network){
		"silence":                func(net *network.Network) { net.Rule(network.Silence) },
		"silence for a while":    func(net *network.Network) { net.Rule(network.Silence); time.Sleep(10 * time.Second) },
		"connections that break": func(net *network.Network) { net.Rule(network.Silence); net.Cut() },
		"no connections":         func(net *network.Network) { net.Refuse() },
	}, func(t *testing.T, w *testbed.World, begin func(net *network.Network)) {
		p := w.NewClient(testbed.WithLease(time.Hour))
		calls := callsWithContext(t, w, p)
		for name, dir := range map[string]string{
			"rlock": "../..", "once": "../../once", "idempotent": "../../once/idempotent", "redisson": "../../redisson", "elect": "../../elect", "inspect": "../../inspect",
		} {
			for _, name := range withContext(t, name, dir) {
				assert.True(t, calls[name] != nil || unbounded[name] != "", "%s takes a context: add a row to callsWithContext", name)
			}
		}
		begin(p.Net)
		for _, name := range slices.Sorted(maps.Keys(calls)) {
			const wait = 200 * time.Millisecond
			ctx, cancel := context.WithTimeout(w.Ctx, wait)
			began := time.Now()
			err := calls[name](ctx)
			assert.LessOrEqual(t, time.Since(began), wait, "%s: %v", name, err)
			cancel()
		}
		p.Net.Rule(nil)
		p.Net.Heal()
	})
}
