package rlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// Each bubble of this package checks that Close leaves no goroutine behind: one that does not
// end fails its test.

func TestCloseReleasesHeldLocks(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, me := w.process(), w.caller()
		locks := w.times(1000)
		for i := range locks {
			lock := p.lock(fmt.Sprint("lock ", i))
			require.NoError(t, lock.Lock(me))
			if i%10 == 0 {
				require.NoError(t, lock.LockFor(me, time.Hour))
			}
		}
		require.GreaterOrEqual(t, len(w.keys()), locks)
		within(t, 0, 100*time.Millisecond, func() { require.NoError(t, p.Close()) })
		assert.Empty(t, w.keys())
		assert.Zero(t, p.logged("lost"), "nothing was")
	})
}

func TestALockThatCloseReleasesIsGrantedAtOnce(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, other, them := w.process(), w.process(), w.caller()
		require.NoError(t, p.lock(key).Lock(w.caller()))
		result := start(func() error { return other.lock(key).rival.Lock(them) })
		require.True(t, pending(result))
		require.NoError(t, p.Close())
		within(t, 0, 10*time.Millisecond, func() { require.NoError(t, <-result) })
		require.NoError(t, other.lock(key).rival.Unlock(them))
	})
}

func TestCloseEndsEveryWaitAtOnce(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, other, me := w.process(), w.process(), w.caller()
		require.NoError(t, other.lock("theirs").Lock(me))
		require.NoError(t, p.lock("ours").Lock(me))
		var results []<-chan error
		for range 3 {
			for _, name := range []string{"theirs", "ours"} {
				them := w.caller()
				results = append(results, start(func() error { return p.lock(name).rival.Lock(them) }))
				results = append(results, start(func() error {
					_, err := p.lock(name).rival.TryLockFor(w.caller(), time.Minute, 0)
					return err
				}))
			}
		}
		synctest.Wait()
		within(t, 0, 100*time.Millisecond, func() {
			require.NoError(t, p.Close())
			for _, result := range results {
				require.ErrorIs(t, <-result, rlock.ErrClosed)
			}
		})
		require.NoError(t, other.lock("theirs").Unlock(me))
		w.drain()
		assert.Empty(t, w.keys())
	})
}

func TestEveryCallOfAClosedClientReturnsErrClosed(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, me := w.process(), w.caller()
		lock, free := p.lock(key), p.lock("free")
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Lock(me))
		hold, err := lock.Acquire(me)
		require.NoError(t, err)
		require.NoError(t, p.Close())

		<-hold.Context().Done()
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrClosed)
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrClosed)
		assert.False(t, hold.Valid())
		assert.True(t, hold.ValidUntil().IsZero())
		assert.False(t, lock.IsHeld(me))
		assert.Zero(t, lock.HoldCount(me))
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrClosed)
		for range 3 {
			require.ErrorIs(t, lock.Unlock(me), rlock.ErrClosed)
		}
		calls := map[string]func() error{
			"Lock":        func() error { return free.Lock(me) },
			"LockFor":     func() error { return free.LockFor(me, time.Second) },
			"TryLock":     func() error { _, err := free.TryLock(me); return err },
			"TryLockFor":  func() error { _, err := free.TryLockFor(me, time.Second, 0); return err },
			"ForceUnlock": func() error { _, err := free.ForceUnlock(me); return err },
			"IsLocked":    func() error { _, err := free.IsLocked(me); return err },
			"TTL":         func() error { _, err := free.TTL(me); return err },
			"Acquire":     func() error { _, err := free.Acquire(me); return err },
			"Attempt":     func() error { _, err := free.Acquire(me, rlock.WithWait(0)); return err },
			"Do":          func() error { return free.Do(me, func(context.Context) error { panic("called") }) },
		}
		for method, call := range calls {
			require.ErrorIs(t, call(), rlock.ErrClosed, method)
			require.NotErrorIs(t, call(), rlock.ErrNotAcquired, method)
		}
	})
}

func TestClosingAgainIsHarmless(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p := w.process()
		require.NoError(t, p.lock(key).Lock(w.caller()))
		var results []<-chan error
		for range 10 {
			results = append(results, start(p.Close))
		}
		for _, result := range results {
			require.NoError(t, <-result)
		}
		require.NoError(t, p.Close())
		assert.Empty(t, w.keys())
	})
}

func TestCloseReportsInTimeThatRedisIsOutOfReach(t *testing.T) {
	for name, fail := range outages {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, other, them, me := w.client(), w.client(), w.caller(), w.caller()
				require.NoError(t, p.NewLock(key).Lock(me))
				require.NoError(t, other.NewLock("theirs").Lock(them))
				waits := start(func() error { return p.NewLock("theirs").Lock(me) })
				require.True(t, pending(waits))
				fail(p.net)
				within(t, 3*time.Second, 6*time.Second, func() { require.ErrorIs(t, p.Close(), rlock.ErrUnconfirmed) })
				require.ErrorIs(t, <-waits, rlock.ErrClosed)
				sent := len(p.net.Sent(""))
				require.NoError(t, other.NewLock(key).Lock(them), "its lease has ended")
				assert.Len(t, p.net.Sent(""), sent, "commands were sent after Close")
				require.NoError(t, other.NewLock(key).Unlock(them))
			})
		})
	}
}

func TestCloseWaitsLongerIfTheConfigGivesTheServerLonger(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(func(c *rlock.Config) { c.Redis.ConnWriteTimeout = 12 * time.Second }), w.caller()
		one, two := p.NewLock("one"), p.NewLock("two")
		require.NoError(t, one.Lock(me)) // the scripts are known
		require.NoError(t, one.Unlock(me))
		require.NoError(t, one.Lock(me))
		require.NoError(t, two.Lock(me))
		synctest.Wait() // the client has subscribed to its own channel: a connection that fails makes it verify all locks
		p.net.SetRoundTrip(8 * time.Second)
		within(t, 8*time.Second, 8*time.Second, func() { require.NoError(t, one.Unlock(me)) })
		within(t, 8*time.Second, 10*time.Second, func() { require.NoError(t, p.Close()) }) // rueidis allows each of two connections a second
		assert.Empty(t, w.Keys())
	})
}

func TestCloseWithNothingHeldDoesNotWaitForAServerThatIsAway(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, me := w.process(), w.caller()
		require.NoError(t, p.lock(key).Lock(me))
		require.NoError(t, p.lock(key).Unlock(me))
		w.settle()
		p.refuse()
		within(t, 0, time.Second, func() { require.NoError(t, p.Close()) })
	})
}

func TestAnAcquireThatIsInFlightWhenTheClientIsClosedIsReleased(t *testing.T) {
	for name, stage := range map[string]network.Stage{"the request": network.Request, "the reply": network.Reply} {
		for kind, cancels := range map[string]bool{"a context that may end": true, "a context that never ends": false} {
			t.Run(name+", "+kind, func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					p := w.client()
					me := rlock.WithOwner(context.Background(), rlock.NewOwner())
					require.NoError(t, p.NewLock(key).Lock(me))
					require.NoError(t, p.NewLock(key).Unlock(me))
					if cancels {
						me = w.caller()
					}
					p.net.Rule(scripts(1, network.Hold, stage, "acquired"))
					result := start(func() error { return p.NewLock(key).Lock(me) })
					require.True(t, pending(result))
					closed := start(p.Close)
					require.True(t, pending(closed))
					time.Sleep(time.Second)
					p.net.Heal()
					require.NoError(t, <-closed)
					require.ErrorIs(t, <-result, rlock.ErrClosed)
					assert.Empty(t, w.Keys())
				})
			})
		}
	}
}

// The message of the grant comes before the answer to the join.
func TestAGrantWhoseJoinIsInFlightWhenTheClientIsClosedIsReleased(t *testing.T) {
	for name, of := range map[string]func([]*rlock.Client, string) locker{"plain": plainLock, "fenced": fencedLock, "fair": fairLock, "read": readLock, "write": writeLock} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, holder := w.client(), w.client()
				me, them := w.caller(), w.caller()
				lock, theirs := of([]*rlock.Client{p.Client}, key), of([]*rlock.Client{holder.Client}, key)
				if name == "read" {
					theirs = writeLock([]*rlock.Client{holder.Client}, key)
				}
				require.NoError(t, lock.Do(w.ctx, nothing)) // the scripts are known
				require.NoError(t, theirs.Lock(them))
				p.net.Rule(func(f network.Frame) network.Fate {
					if f.Stage == network.Reply && isStep(f) && joins(f) > 0 {
						return network.Hold
					}
					return network.Pass
				})
				result := start(func() error { return lock.Lock(me) })
				require.True(t, pending(result))
				require.NoError(t, theirs.Unlock(them))
				synctest.Wait()
				require.True(t, w.Exists(key), "it is granted to the ticket")
				closed := start(p.Close)
				require.True(t, pending(closed))
				p.net.Heal()
				require.NoError(t, <-closed)
				require.ErrorIs(t, <-result, rlock.ErrClosed)
				assert.False(t, w.Exists(key))
			})
		})
	}
}

// A TryLock that is refused by a free lock sends a command that concerns no tenure, and then
// another acquire: Close knows nothing of it that it could wait for.
func TestAnAttemptThatAsksTwiceTakesNothingOnceTheClientIsClosed(t *testing.T) {
	const roundTrip = 100 * time.Millisecond
	for quarters := range 5 {
		t.Run(fmt.Sprintf("closed after %d quarters of a round trip", 4+quarters), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, holder, waiter := w.client(), w.client(), w.client()
				me := w.caller()
				require.NoError(t, p.NewLock("another").Lock(me)) // the client listens on its channel
				require.NoError(t, p.NewLock("another").Unlock(me))
				require.NoError(t, holder.NewLock(key).Lock(w.caller()))
				ctx, cancel := context.WithCancel(w.caller())
				waits := start(func() error { return waiter.NewLock(key).Lock(ctx) })
				require.True(t, pending(waits))
				waiter.die()
				w.Del(key) // without a message to the waiter

				p.net.SetRoundTrip(roundTrip)
				tried := start(func() error {
					_, err := p.NewLock(key).TryLock(me)
					return err
				})
				time.Sleep(roundTrip + time.Duration(quarters)*roundTrip/4 + 1)
				require.NoError(t, p.Close())
				require.ErrorIs(t, <-tried, rlock.ErrClosed)
				synctest.Wait()
				assert.False(t, w.Exists(key))
				cancel()
				require.ErrorIs(t, <-waits, context.Canceled)
			})
		})
	}
}

func TestClientsThatAreClosedInTheMiddleOfEverythingLeaveNothingBehind(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		var sections atomic.Int64
		rounds := w.times(20)
		for round := range rounds {
			var results []<-chan error
			here, there := w.process(), w.process()
			for _, p := range []*peer{here, there} {
				for range 4 {
					me := w.caller()
					results = append(results, start(func() error {
						for {
							hold, err := p.lock(key).Acquire(me)
							if err != nil {
								return err
							}
							sections.Add(1)
							time.Sleep(time.Millisecond)
							if err := hold.Release(me); err != nil {
								return err
							}
						}
					}))
				}
			}
			time.Sleep(time.Duration(round) * 700 * time.Microsecond)
			if round == rounds-1 { // clients that split the votes at first need longer
				w.eventually(func() bool { return sections.Load() > 0 }, "a client gets the lock")
			}
			require.NoError(t, here.Close())
			time.Sleep(time.Duration(round) * 700 * time.Microsecond)
			require.NoError(t, there.Close())
			for _, result := range results {
				require.ErrorIs(t, <-result, rlock.ErrClosed)
			}
			require.Empty(t, w.keys())
		}
	})
}

func TestCloseLeavesASharedClientOpen(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		shared, me := w.outsider(), w.caller()
		client, err := rlock.New(rlock.Config{Client: shared, Logger: quiet})
		require.NoError(t, err)
		second, err := rlock.New(rlock.Config{Client: shared, Logger: quiet})
		require.NoError(t, err)
		defer second.Close()
		require.NoError(t, client.NewLock(key).Lock(me))
		require.NoError(t, client.Close())
		assert.Empty(t, w.Keys())
		require.NoError(t, shared.Do(w.ctx, shared.B().Ping().Build()).Error())
		require.NoError(t, second.NewLock(key).Lock(me))
		require.NoError(t, second.NewLock(key).Unlock(me))
	})
}

func TestWithASharedClientCloseIsBoundedTooWhenTheServerIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		net := network.New(w.Dial)
		defer net.Close()
		shared, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{"127.0.0.1:6379"}, ForceSingleClient: true, DisableCache: true, DialCtxFn: net.Dial,
		})
		require.NoError(t, err)
		defer shared.Close()
		client, err := rlock.New(rlock.Config{Client: shared, Logger: quiet})
		require.NoError(t, err)
		require.NoError(t, client.NewLock("held").Lock(w.caller()))
		net.Rule(network.Silence)
		me := w.caller()
		result := start(func() error { return client.NewLock(key).Lock(me) })
		require.True(t, pending(result))
		// Without AlwaysPipelining a single command of rueidis, here the last try of the
		// release, ends at its own deadline and not when it is cancelled.
		within(t, 3*time.Second, 7*time.Second, func() { require.ErrorIs(t, client.Close(), rlock.ErrUnconfirmed) })
		// An acquire in flight ends as soon as the shared client drops it.
		require.ErrorIs(t, <-result, rlock.ErrClosed)
	})
}

// sharing returns a lock client that shares a rueidis client of the world's server, and the
// network between them. The changes are made to the options of the rueidis client.
func (w *world) sharing(changes ...func(*rueidis.ClientOption)) (*rlock.Client, rueidis.Client, *network.Network) {
	w.t.Helper()
	n := network.New(w.Dial)
	option := rueidis.ClientOption{
		InitAddress: []string{"127.0.0.1:6379"}, ForceSingleClient: true, DisableCache: true, DialCtxFn: n.Dial,
	}
	for _, change := range changes {
		change(&option)
	}
	shared, err := rueidis.NewClient(option)
	require.NoError(w.t, err)
	client, err := rlock.New(rlock.Config{Client: shared, Logger: quiet})
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		_ = client.Close()
		shared.Close()
		n.Close()
	})
	return client, shared, n
}

// connections are the ways in which a lock client may be connected.
var connections = map[string]func(w *world) (*rlock.Client, *network.Network){
	"of its own": func(w *world) (*rlock.Client, *network.Network) {
		p := w.client()
		return p.Client, p.net
	},
	"of its own, several": func(w *world) (*rlock.Client, *network.Network) {
		p := w.client(func(c *rlock.Config) { c.Redis.PipelineMultiplex = 2 })
		return p.Client, p.net
	},
	"shared": func(w *world) (*rlock.Client, *network.Network) {
		client, _, n := w.sharing()
		return client, n
	},
	"shared, one that pipelines": func(w *world) (*rlock.Client, *network.Network) {
		client, _, n := w.sharing(func(o *rueidis.ClientOption) { o.AlwaysPipelining, o.PipelineMultiplex = true, -1 })
		return client, n
	},
}

// A caller leaves while its acquire is in flight. Redis tells the client whether it was
// executed, so Close has nothing to warn of.
func TestCloseIsConfirmedAlthoughCallersHaveLeft(t *testing.T) {
	for name, connect := range connections {
		for kind, newLock := range map[string]func(*rlock.Client) locker{
			"lock":       func(c *rlock.Client) locker { return c.NewLock(key) },
			"fair lock":  func(c *rlock.Client) locker { return c.NewFairLock(key) },
			"write lock": func(c *rlock.Client) locker { return c.NewReadWriteLock(key).Write() },
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					random := rand.New(rand.NewPCG(1, 2))
					for round := range rounds(30) {
						holder, me := w.client(), w.caller()
						held := round%3 == 0
						if held {
							require.NoError(t, newLock(holder.Client).Lock(me))
						}
						client, n := connect(w)
						lock := newLock(client)
						n.SetRoundTrip(20 * time.Millisecond)
						var results []<-chan error
						for range 4 {
							ctx, cancel := context.WithTimeout(w.caller(), time.Duration(random.IntN(300))*time.Millisecond/10)
							results = append(results, start(func() error {
								defer cancel()
								if err := lock.Lock(ctx); err != nil {
									return err
								}
								return lock.Unlock(ctx)
							}))
							time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond / 10)
						}
						for _, result := range results {
							if err := <-result; err != nil {
								require.ErrorIs(t, err, context.DeadlineExceeded)
							}
						}
						within(t, 0, 500*time.Millisecond, func() { require.NoError(t, client.Close()) }) // a release that found nothing is sent again
						if held {
							require.NoError(t, newLock(holder.Client).Unlock(me))
						}
						require.Empty(t, w.Keys())
						require.NoError(t, holder.Close())
					}
				})
			})
		}
	}
}

// ours returns how many goroutines this package has started.
func ours() (n int) {
	buffer := make([]byte, 64<<20)
	stacks := string(buffer[:runtime.Stack(buffer, true)])
	return strings.Count(stacks, "\ncreated by github.com/go-rlock/rlock/rlock.")
}

// Contexts end before, while and after Close gives up.
func TestNoGoroutineOutlivesClose(t *testing.T) {
	for name, connect := range connections {
		for when, begin := range map[string]time.Duration{"all the time": 0, "when Close gives up": 3 * time.Second} {
			t.Run(name+", "+when, func(t *testing.T) {
				bubbleAlone(t, func(t *testing.T, w *world) { closeAtASilentServer(t, w, connect, begin) })
			})
		}
	}
}

func closeAtASilentServer(t *testing.T, w *world, connect func(*world) (*rlock.Client, *network.Network), begin time.Duration) {
	before := ours()
	client, n := connect(w)
	n.Rule(network.Silence)
	var results []<-chan error
	for i := range 200 {
		ctx, cancel := context.WithTimeout(w.caller(), begin+(8*time.Second-begin)/200*time.Duration(i))
		call := func() error { return client.NewLock(fmt.Sprint("lock ", i)).Lock(ctx) }
		if i%4 == 3 {
			call = func() error { _, err := client.NewLock(key).IsLocked(ctx); return err }
		}
		results = append(results, start(func() error {
			defer cancel()
			return call()
		}))
	}
	synctest.Wait()
	within(t, 3*time.Second, 7*time.Second, func() { require.ErrorIs(t, client.Close(), rlock.ErrUnconfirmed) })
	assert.Equal(t, before, ours(), "goroutines")
	for _, result := range results {
		require.Error(t, <-result)
	}
}

func TestALockEndsWithTheSharedClientThatWasClosedFirst(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		clients := make([]*rlock.Client, 3)
		shared := make([]rueidis.Client, 3)
		for i := range clients {
			clients[i], shared[i], _ = newWorld(t, w.ctx).sharing()
		}
		client := clients[0]
		held, me := client.NewLock("held"), w.caller()
		require.NoError(t, held.Lock(me))
		for _, s := range shared {
			s.Close()
		}
		within(t, 0, 5*time.Second, func() { require.ErrorIs(t, held.Unlock(me), rlock.ErrUnconfirmed) })
		for name, lock := range map[string]locker{
			"lock":       client.NewLock(key),
			"fair lock":  client.NewFairLock(key),
			"read lock":  client.NewReadWriteLock(key).Read(),
			"multi-lock": rlock.NewMultiLock(client.NewLock(key), client.NewLock("another")),
		} {
			within(t, 0, 5*time.Second, func() { require.ErrorIs(t, lock.Lock(w.caller()), rlock.ErrClosed, name) })
			within(t, 0, 5*time.Second, func() {
				err := lock.Lock(w.caller())
				require.ErrorIs(t, err, rlock.ErrClosed, name)
				require.ErrorIs(t, err, rueidis.ErrClosing, name)
			})
			within(t, 0, 5*time.Second, func() {
				_, err := lock.IsLocked(w.ctx)
				require.ErrorIs(t, err, rueidis.ErrClosing, name)
			})
		}
		within(t, 0, 5*time.Second, func() {
			require.ErrorIs(t, rlock.NewRedLock(clients, key).Lock(w.caller()), rueidis.ErrClosing)
		})
	})
}

// Other callers wait for the connection that one caller's command opens.
func TestACallerThatLeavesWhileItConnectsFailsNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		for range 20 {
			require.NoError(t, p.NewLock("held").Lock(me))
			p.net.SetRoundTrip(20 * time.Millisecond)
			p.net.Cut()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(w.caller(), 10*time.Millisecond)
			leaves := start(func() error { return p.NewLock(key).Lock(ctx) })
			require.True(t, pending(leaves))
			require.NoError(t, p.NewLock("held").Unlock(me))
			require.ErrorIs(t, <-leaves, context.DeadlineExceeded)
			cancel()
			p.net.SetRoundTrip(0)
			time.Sleep(time.Second)
		}
	})
}
