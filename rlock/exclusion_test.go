package rlock_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

// A record finds out whether two critical sections ever overlapped, in two ways: by a counter
// that only the lock protects (lost additions, and the race detector), and by the times at
// which each section began and ended.
type record struct {
	workers sync.WaitGroup
	counter int // protected by the lock under test

	mu    sync.Mutex // protects following
	spans []span
}

type span struct{ from, to time.Time }

// A way is one of the ways in which a caller runs a section under the lock.
type way func(ctx context.Context, lock locker, section func()) error

var ways = []way{
	func(ctx context.Context, lock locker, section func()) error {
		if err := lock.Lock(ctx); err != nil {
			return err
		}
		section()
		return lock.Unlock(ctx)
	},
	func(_ context.Context, lock locker, section func()) error {
		ctx := context.Background() // the acquire is not sent by a goroutine of its own
		if err := lock.Lock(ctx); err != nil {
			return err
		}
		section()
		return lock.Unlock(ctx)
	},
	func(ctx context.Context, lock locker, section func()) error { // nested
		if err := lock.Lock(ctx); err != nil {
			return err
		}
		if err := lock.LockFor(ctx, time.Hour); err != nil {
			return errors.Join(err, lock.Unlock(ctx))
		}
		section()
		return errors.Join(lock.Unlock(ctx), lock.Unlock(ctx))
	},
	func(ctx context.Context, lock locker, section func()) error {
		return lock.Do(ctx, func(context.Context) error {
			section()
			return nil
		})
	},
	func(ctx context.Context, lock locker, section func()) error {
		hold, err := lock.Acquire(ctx, rlock.WithLease(time.Hour))
		if err != nil {
			return err
		}
		section()
		return hold.Release(ctx)
	},
	func(ctx context.Context, lock locker, section func()) error {
		for {
			taken, err := try(ctx, lock, time.Millisecond, 0)
			if err != nil {
				return err
			}
			if taken {
				section()
				return lock.Unlock(ctx)
			}
		}
	},
}

// work runs a section in each goroutine, once a round. A holder that was granted a fair lock
// by the queue has a lease of two seconds at first, and may lose the lock if the process is
// suspended for as long.
func (r *record) work(s *site, lock locker, goroutines, rounds int) {
	for g := range goroutines {
		r.workers.Go(func() {
			var spans []span
			section := func() {
				from := time.Now()
				r.counter++
				spans = append(spans, span{from, time.Now()})
			}
			tried, ok := lock.(*trial)
			fair := ok && tried.kind.strict
			for len(spans) < rounds {
				err := ways[(g+len(spans))%len(ways)](s.ctx, lock, section)
				if claim := fair && errors.Is(err, rlock.ErrLost); !claim && !assert.NoError(s.t, err) {
					break
				}
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.spans = append(r.spans, spans...)
		})
	}
}

// check waits for the work, which had that many sections in all, and asserts that no two of
// them overlapped.
func (r *record) check(t *testing.T, sections int) {
	t.Helper()
	r.workers.Wait()
	require.Equal(t, sections, len(r.spans), "sections")
	assert.Equal(t, sections, r.counter, "additions were lost")
	slices.SortFunc(r.spans, func(a, b span) int {
		return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to))
	})
	for i := 1; i < len(r.spans); i++ {
		require.False(t, r.spans[i].from.Before(r.spans[i-1].to), "two sections overlap: %v and %v", r.spans[i-1], r.spans[i])
	}
}

// rounds is n, or a third of it with -short, and a sixth if the race detector is on as well.
func rounds(n int) int {
	if fewer() {
		return n / 6
	}
	if testing.Short() {
		return n / 3
	}
	return n
}

// Redisson: testConcurrency_SingleInstance.
func TestTheSectionsOfOneClientNeverOverlap(t *testing.T) {
	eachExclusiveKind(t, func(t *testing.T, s *subject) {
		r := new(record)
		r.work(s.site, s.lock(), 16, rounds(25))
		r.check(t, 16*rounds(25))
	})
}

// Redisson: testConcurrency_MultiInstance.
func TestTheSectionsOfSeveralClientsNeverOverlap(t *testing.T) {
	eachExclusiveKind(t, func(t *testing.T, s *subject) {
		r := new(record)
		for range 3 {
			r.work(s.site, s.lock(), 4, rounds(15))
		}
		r.check(t, 3*4*rounds(15))
	})
}

// Redisson: testConcurrencyLoop_MultiInstance.
func TestTheSectionsOfClientsWithOneGoroutineEachNeverOverlap(t *testing.T) {
	eachExclusiveKind(t, func(t *testing.T, s *subject) {
		r := new(record)
		for range 8 {
			r.work(s.site, s.lock(), 1, rounds(12))
		}
		r.check(t, 8*rounds(12))
	})
}

// readsAndWrites has goroutines of several clients read and write at random, in all ways, and
// asserts that no writer overlaps a reader or another writer.
func readsAndWrites(s *site, clients, goroutines, rounds int, disturb func()) {
	s.t.Helper()
	var mu sync.Mutex
	var reads, writes []span
	counter := 0 // protected by the lock
	var all sync.WaitGroup
	for range clients {
		l := s.client(withLease(5 * time.Second)).NewReadWriteLock(key)
		for g := range goroutines {
			all.Go(func() {
				ctx := rlock.WithOwner(s.ctx, rlock.NewOwner())
				read := func(context.Context) error {
					from, before := time.Now(), counter
					time.Sleep(50 * time.Microsecond)
					assert.Equal(s.t, before, counter, "a writer overlaps a reader")
					mu.Lock()
					defer mu.Unlock()
					reads = append(reads, span{from, time.Now()})
					return nil
				}
				write := func(context.Context) error {
					from := time.Now()
					counter++
					mu.Lock()
					defer mu.Unlock()
					writes = append(writes, span{from, time.Now()})
					return nil
				}
				for round := range rounds {
					var err error
					switch (g + round) % 5 {
					case 0:
						err = l.Write().Do(ctx, write)
					case 1:
						err = l.Write().Do(ctx, func(ctx context.Context) error { // and reads, too
							return cmp.Or(write(ctx), l.Read().Do(ctx, read))
						})
					case 2: // a downgrade
						err = l.Write().Lock(ctx)
						if err == nil {
							err = cmp.Or(write(ctx), l.Read().LockFor(ctx, time.Hour), l.Write().Unlock(ctx), read(ctx), l.Read().Unlock(ctx))
						}
					default:
						err = l.Read().Do(ctx, read)
					}
					if !assert.NoError(s.t, err) {
						return
					}
				}
			})
		}
	}
	if disturb != nil {
		disturb()
	}
	all.Wait()
	assert.Len(s.t, writes, counter, "additions were lost")
	inside := append(slices.Clone(writes), reads...)
	for _, w := range writes {
		for _, other := range inside {
			if other != w {
				require.False(s.t, w.from.Before(other.to) && other.from.Before(w.to), "%v overlaps %v", w, other)
			}
		}
	}
	s.t.Logf("%d reads, %d writes", len(reads), len(writes))
}

func TestNoWriterOverlapsReadersOrWriters(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone, redistest.KindCluster}, func(t *testing.T, server *redistest.Server) {
		readsAndWrites(at(t, server), 3, 6, 25, nil)
	})
}

func TestNoWriterOverlapsReadersOrWritersWhileConnectionsAndScriptsAreLost(t *testing.T) {
	s := at(t, redistest.Standalone(t))
	readsAndWrites(s, 3, 6, 40, func() {
		for range 10 {
			time.Sleep(20 * time.Millisecond)
			s.admin("SCRIPT", "FLUSH")
			s.admin("CLIENT", "KILL", "TYPE", "pubsub")
		}
	})
}

// Load, in virtual time. Each test repeats its load: the first round may leave memory and
// goroutines behind, and later rounds must add none. The full load, 10 000 locks and an hour,
// takes minutes:
//
//	go test -v -timeout 30m -run 'TenThousand|ManyLocks|MixedLoad' ./rlock -long

// thorough returns whole with -long, otherwise usual.
func thorough[N any](whole, usual N) N {
	if *long {
		return whole
	}
	return usual
}

// fewer reports whether tests do less: with -short, under the race detector, which makes the
// embedded server several times slower.
func fewer() bool { return redistest.UnderRace && testing.Short() && !*long }

// manyCommands skips a test that sends thousands of commands, or lasts an hour of virtual
// time, under the race detector with -short.
func manyCommands(t *testing.T) {
	t.Helper()
	if fewer() {
		t.Skip("with the race detector: only without -short")
	}
}

// repeated runs a load several times and asserts that after each round its resources are free
// again: goroutines, keys, subscriptions, memory. Other tests may leave something in the
// process at any time; a leak of this load grows in every round.
func repeated(t *testing.T, s *site, clients []*rlock.Client, load func(round int)) {
	t.Helper()
	var goroutines, heap []int
	for round := range 5 {
		begin := time.Now()
		load(round)
		virtual := time.Since(begin)
		time.Sleep(time.Minute) // subscriptions linger
		synctest.Wait()
		goroutines, heap = append(goroutines, runtime.NumGoroutine()), append(heap, allocated())
		t.Logf("after %v there are %d goroutines and %d KiB", virtual.Round(time.Millisecond), goroutines[round], heap[round]>>10)
	}
	assert.Less(t, leastGrowth(goroutines), 10)
	assert.Less(t, leastGrowth(heap), heap[0]/64+64<<10) // miniredis keeps a record of every key
	keys, err := s.outside.Do(context.Background(), s.outside.B().Dbsize().Build()).AsInt64()
	require.NoError(t, err)
	assert.Zero(t, keys)
	channels, err := s.outside.Do(context.Background(), s.outside.B().PubsubChannels().Build()).AsStrSlice()
	require.NoError(t, err)
	assert.Empty(t, ofLocks(channels))
	for _, client := range clients {
		require.NoError(t, client.Close())
	}
}

// leastGrowth returns the smallest growth from one round to the next.
func leastGrowth(sizes []int) int {
	least := sizes[1] - sizes[0]
	for i := range sizes[1:] {
		least = min(least, sizes[i+1]-sizes[i])
	}
	return least
}

// allocated returns the size of the heap in use.
func allocated() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // objects that the first collection has taken out of pools
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

func TestTenThousandWaitersOfALockAreAllServed(t *testing.T) {
	manyCommands(t)
	redistest.Bubble(t, func(t *testing.T, server *redistest.Server) {
		s := &site{Server: server, t: t, outside: server.Client(t)}
		client := s.client()
		lock := client.NewLock(key)
		repeated(t, s, []*rlock.Client{client}, func(int) {
			var served int
			var waiters sync.WaitGroup
			for range 10_000 {
				me := rlock.WithOwner(context.Background(), rlock.NewOwner())
				waiters.Go(func() {
					if assert.NoError(t, lock.Lock(me)) {
						served++
						assert.NoError(t, lock.Unlock(me))
					}
				})
			}
			waiters.Wait()
			assert.Equal(t, 10_000, served)
		})
	})
}

func TestManyLocksWithAWaiterEachAreAllHandedOff(t *testing.T) {
	crowd := thorough(10_000, 200)
	if fewer() {
		crowd = 40
	}
	redistest.Bubble(t, func(t *testing.T, server *redistest.Server) {
		s := &site{Server: server, t: t, outside: server.Client(t)}
		here, there := s.client(), s.client()
		repeated(t, s, []*rlock.Client{here, there}, func(round int) {
			holds := make([]*rlock.Hold, crowd)
			served := make([]bool, crowd)
			var waiters sync.WaitGroup
			for i := range crowd {
				name := fmt.Sprintf("orders:%d:%d", round, i)
				var err error
				holds[i], err = here.NewLock(name).Acquire(context.Background())
				require.NoError(t, err)
				waiters.Go(func() {
					assert.NoError(t, there.NewLock(name).Do(context.Background(), func(context.Context) error {
						served[i] = true
						return nil
					}))
				})
			}
			synctest.Wait() // all calls wait
			for i, hold := range holds {
				assert.False(t, served[i])
				assert.NoError(t, hold.Release(context.Background()))
			}
			waiters.Wait()
			assert.NotContains(t, served, false)
		})
	})
}

func TestMixedLoadLeavesNothingBehind(t *testing.T) {
	length := thorough(15*time.Minute, 15*time.Second)
	if fewer() {
		length = 5 * time.Second
	}
	redistest.Bubble(t, func(t *testing.T, server *redistest.Server) {
		s := &site{Server: server, t: t, outside: server.Client(t)}
		clients := []*rlock.Client{s.client(), s.client(), s.client()}
		seed := uint64(time.Now().UnixNano())
		repeated(t, s, clients, func(int) {
			m := &mix{end: time.Now().Add(length), inside: make(map[string]bool)}
			for i, client := range clients {
				for j := range 8 {
					random := rand.New(rand.NewPCG(seed, uint64(i*8+j)))
					m.workers.Go(func() { m.work(t, client, random) })
				}
			}
			m.workers.Wait()
			t.Logf("%d sections, %d given up, %d leases that ended", m.sections, m.givenUp, m.ended)
			assert.NotZero(t, m.sections)
			assert.NotZero(t, m.givenUp)
			assert.NotZero(t, m.ended)
		})
	})
}

// A mix is workers that use a few locks in every way.
type mix struct {
	end     time.Time
	workers sync.WaitGroup

	mu                       sync.Mutex // protects following
	inside                   map[string]bool
	sections, givenUp, ended int
}

func (m *mix) work(t *testing.T, client *rlock.Client, random *rand.Rand) {
	me := rlock.WithOwner(context.Background(), rlock.NewOwner())
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	for time.Now().Before(m.end) {
		lock, section := client.NewLock(fmt.Sprintf("orders:%d", random.IntN(12))), upTo(time.Second)
		var err error
		switch random.IntN(6) {
		case 0:
			err = lock.Do(me, func(context.Context) error {
				m.section(t, lock, section)
				return nil
			})
		case 1: // nested
			err = lock.Do(me, func(ctx context.Context) error {
				return lock.Do(ctx, func(context.Context) error {
					m.section(t, lock, section)
					return nil
				})
			})
		case 2: // one attempt
			var taken bool
			if taken, err = lock.TryLock(me); taken {
				m.section(t, lock, section)
				err = lock.Unlock(me)
			} else if err == nil {
				err = rlock.ErrNotAcquired
			}
		case 3: // for some time
			var hold *rlock.Hold
			if hold, err = lock.Acquire(me, rlock.WithWait(upTo(time.Second))); err == nil {
				m.section(t, lock, section)
				err = hold.Release(me)
			}
		case 4: // until the caller gives up
			ctx, cancel := context.WithTimeout(me, upTo(time.Second))
			if err = lock.Lock(ctx); err == nil {
				m.section(t, lock, section)
				err = lock.Unlock(me)
			}
			cancel()
		case 5: // longer than the lease
			if err = lock.LockFor(me, section+time.Second); err == nil {
				m.section(t, lock, section)
				time.Sleep(upTo(2 * time.Second))
				err = lock.Unlock(me)
			}
		}
		m.note(t, err)
		time.Sleep(upTo(time.Second))
	}
}

// section asserts that no other section runs.
func (m *mix) section(t *testing.T, lock *rlock.Lock, d time.Duration) {
	m.mu.Lock()
	assert.False(t, m.inside[lock.Name()], "two sections overlap")
	m.inside[lock.Name()] = true
	m.sections++
	m.mu.Unlock()
	time.Sleep(d)
	m.mu.Lock()
	m.inside[lock.Name()] = false
	m.mu.Unlock()
}

func (m *mix) note(t *testing.T, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case errors.Is(err, rlock.ErrNotAcquired), errors.Is(err, context.DeadlineExceeded):
		m.givenUp++
	case errors.Is(err, rlock.ErrLost):
		m.ended++
	default:
		assert.NoError(t, err)
	}
}

// A server is silent while thousands of calls need it.

// callers starts size calls, each with a number, and returns the function that ends them.
func callers(t *testing.T, ctx context.Context, size int, call func(ctx context.Context, i int) error) (disperse func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	results := make([]<-chan error, size)
	for i := range results {
		results[i] = start(func() error { return call(rlock.WithOwner(ctx, rlock.NewOwner()), i) })
	}
	synctest.Wait()
	return func() {
		t.Helper()
		cancel()
		for _, result := range results {
			require.Error(t, <-result)
		}
	}
}

func TestUnlockIsBoundedHoweverManyLocksAreAskedForMeanwhile(t *testing.T) {
	for name, call := range map[string]func(p *testClient) func(context.Context, int) error{
		"locks": func(p *testClient) func(context.Context, int) error {
			return func(ctx context.Context, i int) error { return p.NewLock(fmt.Sprint("lock ", i)).Lock(ctx) }
		},
		"fair locks": func(p *testClient) func(context.Context, int) error {
			return func(ctx context.Context, i int) error { return p.NewFairLock(fmt.Sprint("lock ", i)).Lock(ctx) }
		},
		"looks": func(p *testClient) func(context.Context, int) error {
			return func(ctx context.Context, i int) error {
				_, err := p.NewLock(fmt.Sprint("lock ", i)).IsLocked(ctx)
				return err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, me := w.client(), w.caller()
				lock := p.NewLock(key)
				require.NoError(t, lock.Lock(me))
				require.NoError(t, lock.Unlock(me)) // the scripts are known
				require.NoError(t, lock.Lock(me))
				p.net.Rule(network.Silence)
				disperse := callers(t, w.ctx, 4000, call(p))
				within(t, 0, 5*time.Second, func() { require.ErrorIs(t, lock.Unlock(me), rlock.ErrUnconfirmed) })
				within(t, 0, 0, disperse)
			})
		})
	}
}

func TestAReleaseGoesBeforeAsks(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		lock := p.NewLock(key)
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Unlock(me)) // the scripts are known
		require.NoError(t, lock.Lock(me))
		p.net.SetRoundTrip(time.Second)
		disperse := callers(t, w.ctx, 4000, func(ctx context.Context, i int) error {
			err := p.NewLock(fmt.Sprint("lock ", i)).Lock(ctx)
			if err == nil {
				<-ctx.Done()
				return ctx.Err()
			}
			return err
		})
		within(t, time.Second, time.Second, func() { require.NoError(t, lock.Unlock(me)) })
		p.net.SetRoundTrip(0)
		disperse()
	})
}

func TestACancelledLockReturnsAtOnceHoweverManyLooksWait(t *testing.T) {
	for name, patience := range map[string]time.Duration{
		"looks that wait":        time.Hour,
		"looks that leave early": 10 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, me := w.client(), w.caller()
				require.NoError(t, p.NewLock(key).Lock(me))
				require.NoError(t, p.NewLock(key).Unlock(me))
				p.net.Rule(network.Silence)
				disperse := callers(t, w.ctx, 3000, func(ctx context.Context, i int) error {
					for {
						limited, cancel := context.WithTimeout(ctx, patience)
						_, err := p.NewLock(fmt.Sprint("lock ", i)).IsLocked(limited)
						cancel()
						if ctx.Err() != nil || patience == time.Hour {
							return err
						}
					}
				})
				time.Sleep(100 * time.Millisecond)
				ctx, cancel := context.WithCancel(me)
				result := start(func() error { return p.NewLock(key).Lock(ctx) })
				require.True(t, pending(result))
				within(t, 0, 0, func() {
					cancel()
					require.ErrorIs(t, <-result, context.Canceled)
				})
				within(t, 0, 0, disperse)
			})
		})
	}
}

func TestALookOutlivesAConnectionThatEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, other, me := w.client(), w.client(), w.caller()
		require.NoError(t, other.NewLock(key).Lock(me))
		p.net.Rule(network.Nth(1, network.Cut, network.Reply, "EXISTS"))
		locked, err := p.NewLock(key).IsLocked(w.ctx)
		require.NoError(t, err)
		assert.True(t, locked)
		require.NoError(t, other.NewLock(key).Unlock(me))
	})
}

// An acquisition asks the silent server too, and its goroutines end with the hold. But once
// the server has been silent for a while, locks of other names do not ask it.
func TestARedLockWithASilentServerLeavesABoundedNumberOfGoroutines(t *testing.T) {
	manyCommands(t)
	bubbleAlone(t, func(t *testing.T, w *world) {
		clients := make([]*rlock.Client, 3)
		var last *rlocktest.Server
		for i := range clients {
			last = rlocktest.NewServer(t)
			clients[i] = last.Client()
		}
		require.NoError(t, rlock.NewRedLock(clients, key).Do(w.ctx, func(context.Context) error { return nil }))
		synctest.Wait()
		before := runtime.NumGoroutine()
		last.Silence()
		var holds []*rlock.Hold
		for i := range thorough(50_000, 1500) {
			hold, err := rlock.NewRedLock(clients, fmt.Sprint("lock ", i)).Acquire(w.ctx)
			require.NoError(t, err)
			holds = append(holds, hold)
			time.Sleep(300 * time.Microsecond)
		}
		synctest.Wait()
		assert.Less(t, runtime.NumGoroutine()-before, 2000, "two for each command that was sent before the server was taken for dead")
		for _, hold := range holds {
			require.NoError(t, hold.Release(w.ctx))
		}
		last.Heal()
	})
}
