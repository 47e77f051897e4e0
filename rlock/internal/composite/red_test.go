package composite

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAMajorityIsMoreThanHalfOfTheServers(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		for servers := range 8 {
			for missing := range servers + 1 {
				var parts []Keyed
				for range servers - missing {
					parts = append(parts, f.lock(f.home(), "red"))
				}
				l := NewRed("red", parts, servers)
				if missing > (servers-1)/2 || servers == 0 {
					require.ErrorIs(t, l.Err(), wire.ErrInvalidConfig, "%d of %d", missing, servers)
				} else {
					require.NoError(t, l.Err())
					assert.Equal(t, servers/2+1, l.need)
				}
			}
		}
	})
}

// Of five servers some are held, and some have a fault.
func TestWhatTheServersSayOfARedLock(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		for held := range 6 {
			for faults := range 6 - held {
				servers, l := f.servers(5)
				for i, s := range servers {
					if i < held {
						s.occupy()
					} else if i < held+faults {
						s.err = errors.New("a fault")
					}
				}
				locked, err := l.IsLocked(t.Context())
				ttl, terr := l.TTL(t.Context())
				free := 5 - held - faults
				assert.Equal(t, held >= 3, locked, "%d held, %d faults", held, faults)
				assert.Equal(t, held < 3 && free < 3, err != nil, "a holder may have the parts of servers with faults: %d held, %d faults", held, faults)
				assert.Equal(t, faults > 2, terr != nil, "%d held, %d faults", held, faults)
				if terr == nil {
					assert.Equal(t, free < 3, ttl > 0, "%d held, %d faults", held, faults)
				}
				_, ferr := l.ForceUnlock(t.Context())
				assert.Equal(t, faults > 2, ferr != nil)
			}
		}
	})
}

func TestARedLockIsHeldAsLongAsAMajorityIs(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, l := f.servers(5)
		h := f.held(l)
		until := time.Now()
		for i, d := range []time.Duration{20, 50, 10, 40, 30} {
			servers[i].the().until = until.Add(d * time.Second)
		}
		assert.Equal(t, until.Add(30*time.Second), h.ValidUntil(), "the third longest of five")
		servers[1].the().lose(errGone)
		servers[4].the().lose(errGone)
		require.NoError(t, h.Err())
		assert.Equal(t, until.Add(10*time.Second), h.ValidUntil())
		servers[0].the().lose(errGone)
		require.ErrorIs(t, h.Err(), contract.ErrLost)
		require.ErrorIs(t, context.Cause(h.Context()), contract.ErrLost)
		assert.Zero(t, servers[2].held()+servers[3].held(), "the others are released")
		require.ErrorIs(t, h.Release(t.Context()), contract.ErrLost)
	})
}

func TestSlowServersDelayNoCallAndJoinLater(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, l := f.servers(5)
		servers[0].silent, servers[1].trip = true, time.Minute
		began := time.Now()
		h, err := take(l, Options{Lease: time.Hour})
		require.NoError(t, err)
		assert.Equal(t, began, time.Now())
		h.SetLease(2 * time.Hour)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 2*time.Hour, servers[1].the().lease, "it joins with the lease of now")
		servers[2].the().lose(errGone)
		require.NoError(t, h.Err(), "the one that has joined counts")
		require.NoError(t, h.Release(t.Context()))
		servers[0].setSilent(false)
		synctest.Wait()
		assert.Zero(t, servers[0].held(), "the hold is over: it is released")
	})
}

func TestAGrantAfterTheCallHasFailedIsReleased(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, l := f.servers(3)
		servers[0].silent, servers[1].silent = true, true
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		o := contract.NewOwner()
		_, err := l.Hold(ctx, ctx, o, forever)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Zero(t, servers[2].held())
		servers[0].setSilent(false)
		servers[1].setSilent(false)
		synctest.Wait()
		assert.Zero(t, servers[0].held()+servers[1].held())
		assert.Zero(t, l.Depth(o))
	})
}

// A grant is lost before the majority is there, or while it is counted.
func TestALostGrantDoesNotCount(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, l := f.servers(3)
		servers[0].early, servers[1].err = errGone, errors.New("connection refused")
		_, err := take(l, Options{})
		require.Error(t, err)
		synctest.Wait() // a grant that comes after the outcome is released then
		assert.Zero(t, servers[2].held())

		servers[1].err = nil
		servers[0].early = errGone
		h, err := take(l, Options{})
		require.NoError(t, err)
		servers[1].the().lose(errGone)
		require.ErrorIs(t, h.Err(), contract.ErrLost)
	})
}

func TestOneAttemptAtARedLock(t *testing.T) {
	refused := errors.New("connection refused")
	for what, want := range map[string]struct {
		held, faults int
		err          error
	}{
		"free":                    {0, 0, nil},
		"a minority is another's": {2, 0, nil},
		"a minority is at fault":  {0, 2, nil},
		"a majority is another's": {3, 0, contract.ErrNotAcquired},
		"a majority is at fault":  {0, 3, refused},
		"one is free":             {2, 2, refused},
		"all are another's":       {5, 0, contract.ErrNotAcquired},
		"faults with one other's": {1, 4, refused},
	} {
		for _, abroad := range []bool{true, false} { // the others are owners of another process, or of this one
			virtual(t, func(t *testing.T, f *fleet) {
				servers, l := f.servers(5)
				for i, s := range servers {
					if i < want.held {
						s.occupy().(*fakePart).abroad = abroad
					} else if i < want.held+want.faults {
						s.err = refused
					}
				}
				h, err := take(l, Options{})
				if want.err == nil {
					require.NoError(t, err, what)
					require.NoError(t, h.Release(t.Context()))
				} else {
					require.ErrorIs(t, err, want.err, what)
				}
				synctest.Wait()
				for i, s := range servers {
					assert.Equal(t, i < want.held, s.held() > 0, "%s: server %d", what, i)
				}
			})
		}
	}
}

// A majority of another owner is reported as held, although one server is silent and the answers
// come one after the other.
func TestOneAttemptAwaitsTheAnswersThatDecideItsError(t *testing.T) {
	for what, want := range map[string]struct {
		last time.Duration // until the third server denies
		err  error
	}{
		"in time":  {contract.Silence / 2, contract.ErrNotAcquired},
		"too late": {2 * contract.Silence, errSilent},
	} {
		virtual(t, func(t *testing.T, f *fleet) {
			servers, l := f.servers(3)
			servers[0].shown = contract.Silence
			servers[1].occupy()
			servers[2].occupy()
			servers[2].trip = want.last
			began := time.Now()
			_, err := take(l, Options{})
			require.ErrorIs(t, err, want.err, what)
			assert.Equal(t, min(want.last, contract.Silence), time.Since(began), what)
			servers[2].trip = 0
		})
	}
}

// The waiter waits at the first server that denies, keeps the parts before it, and releases the
// parts behind it.
func TestAWaiterWaitsAtTheFirstServerThatDenies(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, l := f.servers(5)
		var others []contract.Part
		for _, s := range servers[1:4] {
			others = append(others, s.occupy())
		}
		var h *Hold
		result := begin(func() (err error) { h, err = take(l, Options{Wait: time.Hour, Lease: time.Minute}); return err })
		pending(t, result)
		assert.Equal(t, 1, servers[0].held(), "the first")
		assert.Zero(t, servers[0].the().lease, "the watchdog keeps it")
		assert.Zero(t, servers[4].held(), "the last is let go")
		for _, p := range others {
			require.NoError(t, p.Release(t.Context()))
		}
		require.NoError(t, <-result)
		synctest.Wait()
		for _, s := range servers {
			assert.Equal(t, time.Minute, s.the().lease)
		}
		require.NoError(t, h.Release(t.Context()))
	})
}

// The holder of the other parts releases them a little later than the first.
func TestAWaiterThatWasGrantedOnePartWaitsForTheOthers(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, l := f.servers(3)
		others := occupy(servers)
		var h *Hold
		result := begin(func() (err error) { h, err = take(l, forever); return err })
		pending(t, result)
		for i, p := range others {
			if i == 1 {
				time.Sleep(grace / 2)
			}
			require.NoError(t, p.Release(t.Context()))
		}
		require.NoError(t, <-result)
		synctest.Wait()
		for _, s := range servers {
			assert.Equal(t, 1, s.held())
		}
		require.NoError(t, h.Release(t.Context()))
	})
}

// A waiter asks the other servers for a moment, which the end of the hold ends: nothing is taken for
// a hold that is over.
func TestTheEndOfAHoldEndsTheWaitsForOtherParts(t *testing.T) {
	for what, ends := range map[string]func(h *Hold, part *fakePart){
		"released":       func(h *Hold, _ *fakePart) { require.NoError(t, h.Release(context.Background())) },
		"released later": func(h *Hold, _ *fakePart) { h.ReleaseLater() },
		"undone":         func(h *Hold, _ *fakePart) { h.undo(context.Background()) },
		"lost":           func(_ *Hold, part *fakePart) { part.lose(errGone) },
	} {
		virtual(t, func(t *testing.T, f *fleet) {
			servers, l := f.servers(3)
			others := occupy(servers)
			result := begin(func() error {
				h, err := take(l, forever)
				if err == nil {
					ends(h, servers[0].the())
				}
				return err
			})
			for _, p := range others[:2] {
				require.NoError(t, p.Release(t.Context()))
			}
			require.NoError(t, <-result)
			synctest.Wait()
			f.told()
			require.NoError(t, others[2].Release(t.Context()))
			synctest.Wait()
			assert.NotContains(t, f.told(), "grants red", what)
		})
	}
}

// A distant is a lock as a process far from its server knows it. To the other fakes its parts are
// another process's.
type distant struct {
	*fakeLock
	trip time.Duration
}

func (l distant) Acquire(ctx context.Context, o contract.Owner, with Options) (contract.Part, error) {
	time.Sleep(l.trip)
	p, err := l.fakeLock.Acquire(ctx, o, with)
	if err == nil {
		l.change(func() { p.(*fakePart).abroad = true })
	}
	return p, err
}

// Each of two processes is near the servers that are far from the other process, and has the
// servers in the opposite order: it is granted half of them first, and waits for the other half.
func TestAWaiterThatWaitsInVainWaitsWithNothingInHand(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, _ := f.servers(4)
		const far = 10 * time.Millisecond
		one := NewRed("red", []Keyed{distant{servers[0], 0}, distant{servers[1], 0}, distant{servers[2], far}, distant{servers[3], far}}, 4)
		other := NewRed("red", []Keyed{distant{servers[3], 0}, distant{servers[2], 0}, distant{servers[1], far}, distant{servers[0], far}}, 4)
		var results []<-chan error
		for _, l := range []*Lock{one, other} {
			results = append(results, begin(func() error {
				h, err := take(l, Options{Wait: time.Minute})
				if err != nil {
					return err
				}
				return h.Release(t.Context())
			}))
		}
		for _, result := range results {
			require.NoError(t, <-result)
		}
	})
}

func TestANestedRedLockAsksItsOwnServersOnly(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, l := f.servers(5)
		servers[4].silent = true
		o := contract.NewOwner()
		require.NoError(t, l.Take(t.Context(), o, forever))
		synctest.Wait()
		f.told()
		require.NoError(t, l.Take(t.Context(), o, Options{}))
		assert.Len(t, f.told(), 8, "four are asked, and grant")
		assert.Equal(t, 2, l.Depth(o))
		require.NoError(t, l.Unlock(t.Context(), o))
		require.NoError(t, l.Unlock(t.Context(), o))
		servers[4].setSilent(false)
	})
}

func TestARedLockTakesALostPartAgainAfterTheLongestLease(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, l := f.servers(5)
		h := f.held(l)
		servers[1].the().lose(errGone)
		time.Sleep(longest - time.Second)
		assert.Zero(t, servers[1].held(), "not before the longest lease has passed")
		time.Sleep(time.Second + lookEvery)
		assert.Equal(t, 1, servers[1].held())
		for _, i := range []int{0, 2} {
			servers[i].the().lose(errGone)
		}
		require.NoError(t, h.Err(), "the part that was taken again counts")
		require.NoError(t, h.Release(t.Context()))
		synctest.Wait()
		for _, s := range servers {
			assert.Zero(t, s.held())
		}
		for _, home := range f.homes {
			assert.Empty(t, home.healer.lack, "nothing is remembered of a hold that is over")
		}
	})
}

// The server of a part denies it after the call has its majority.
func TestARedLockTakesAPartThatWasDeniedLate(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, l := f.servers(3)
		other := servers[2].occupy()
		servers[2].setSilent(true)
		h, err := take(l, Options{})
		require.NoError(t, err)
		servers[2].setSilent(false)
		synctest.Wait()
		require.Len(t, h.copyParts(), 2)
		other.ReleaseLater()
		time.Sleep(longest + 2*lookEvery)
		assert.Len(t, h.copyParts(), 3)
		require.NoError(t, h.Release(t.Context()))
	})
}

func TestAPartIsTakenAgainOnlyOnAServerThatStaysTheSame(t *testing.T) {
	for what, restart := range map[string]func(s *fakeLock, home *fakeHome){
		"restarted while it was waited for": func(s *fakeLock, home *fakeHome) {
			time.Sleep(20 * time.Second)
			s.restart(home)
			time.Sleep(longest - lookEvery)
		},
		"restarted between the look and the grant": func(s *fakeLock, home *fakeHome) {
			looks := int(longest/lookEvery) + 2 // the last look is after the grant
			home.set(func() {
				home.looks = func(look int) {
					if look == looks {
						home.process++
					}
				}
			})
			time.Sleep(longest + lookEvery)
		},
	} {
		virtual(t, func(t *testing.T, f *fleet) {
			servers, l := f.servers(5)
			h := f.held(l)
			servers[1].the().lose(errGone)
			restart(servers[1], f.homes[1])
			synctest.Wait()
			assert.Zero(t, servers[1].held(), what)
			assert.Len(t, h.copyParts(), 4, what)
			time.Sleep(longest + 2*lookEvery)
			assert.Len(t, h.copyParts(), 5, what)
			require.NoError(t, h.Release(t.Context()))
		})
	}
}

func TestALockThatDoesNotHeal(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, l := f.servers(3)
		h, err := take(l, Options{Lease: time.Hour, Wait: contract.Forever})
		require.NoError(t, err)
		synctest.Wait()
		servers[0].the().lose(errGone)
		time.Sleep(time.Minute)
		assert.Len(t, h.copyParts(), 2, "a fixed lease")
		require.NoError(t, h.Release(t.Context()))

		f.homes[0].set(func() { f.homes[0].refused = wire.ErrNoPermission })
		h = f.held(l)
		var looked, after int
		f.homes[0].set(func() { looked = f.homes[0].looked })
		servers[0].the().lose(errGone)
		time.Sleep(time.Hour)
		assert.Len(t, h.copyParts(), 2, "a server that refuses INFO")
		f.homes[0].set(func() { after = f.homes[0].looked })
		assert.Equal(t, looked+1, after, "it is asked once")
		_, _, lack := f.homes[0].healer.due()
		assert.Zero(t, lack, "the part is given up")
		require.NoError(t, h.Release(t.Context()))
	})
}

// Another owner has the part of a hold most of the time: a waiter for the red lock takes the part
// whenever it is free.
func TestALostPartIsWaitedForInTheLine(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, l := f.servers(3)
		h := f.held(l)
		servers[0].the().lose(errGone)
		other := servers[0].occupy()
		time.Sleep(longest + lookEvery/2)
		require.NoError(t, other.Release(t.Context()))
		synctest.Wait()
		assert.Len(t, h.copyParts(), 3, "it is not left to the next look")

		servers[0].the().lose(errGone)
		other = servers[0].occupy()
		time.Sleep(longest + lookEvery/2)
		h.SetLease(time.Minute)
		require.NoError(t, other.Release(t.Context()))
		synctest.Wait()
		assert.Len(t, h.copyParts(), 2, "the part would have the lease from now on, and end later than the others")
		assert.Zero(t, servers[0].held())
		require.NoError(t, h.Release(t.Context()))
	})
}

func TestTheFirstLookAtAnOldServerIsWhenItIsOldEnough(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, _ := f.servers(3)
		for _, home := range f.homes {
			home.Longest = longest + time.Second
		}
		l := redOf("red", 3, servers...)
		h := f.held(l)
		servers[0].the().lose(errGone)
		time.Sleep(longest + time.Second + time.Millisecond)
		assert.Len(t, h.copyParts(), 3)
		require.NoError(t, h.Release(t.Context()))
	})
}

// A hold that waits for a part of another process does not keep a second hold waiting, nor leave
// its wait behind.
func TestHoldsWaitForTheirPartsSideBySide(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, l := f.servers(3)
		others, m := f.on(f.homes, "other")
		first, second := f.held(l), f.held(m)
		servers[0].the().lose(errGone)
		others[0].the().lose(errGone)
		occupied := servers[0].occupy()
		time.Sleep(longest + time.Millisecond)
		assert.Len(t, first.copyParts(), 2)
		assert.Len(t, second.copyParts(), 3)
		require.NoError(t, first.Release(t.Context()))
		synctest.Wait()
		require.NoError(t, occupied.Release(t.Context()))
		synctest.Wait()
		assert.Zero(t, servers[0].held(), "a hold that is over waits for nothing")
		require.NoError(t, second.Release(t.Context()))
	})
}

func TestAReleaseReturnsWhenAMajorityIsConfirmed(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, l := f.servers(5)
		h := f.held(l)
		for i, s := range servers {
			s.freeze = time.Duration(5-i) * time.Second
		}
		began := time.Now()
		require.NoError(t, h.Release(t.Context()))
		assert.Equal(t, 3*time.Second, time.Since(began))
		for _, s := range servers {
			assert.Zero(t, s.held(), "the owner would nest in a level that is about to go, where guests of the hold have the part")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for _, s := range servers {
			assert.Zero(t, s.held())
		}

		h = f.held(l)
		for _, s := range servers[:3] {
			s.err = contract.ErrUnconfirmed
		}
		require.ErrorIs(t, h.Release(t.Context()), contract.ErrUnconfirmed)
	})
}

// One of five servers is slow, and thousands of calls a second leave their release there behind.
func TestReleasesThatAreLeftBehindHaveABound(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		f.servers(5)
		var slow []*fakeLock // on one of the servers
		for i := range 3 * maxReleases {
			parts, l := f.on(f.homes, fmt.Sprint("red", i))
			parts[2].freeze = 4 * time.Second
			slow = append(slow, parts[2])
			h := f.held(l)
			require.NoError(t, h.Release(t.Context()))
		}
		most := int64(0)
		for _, h := range f.homes {
			most = max(most, h.most)
		}
		assert.LessOrEqual(t, most, int64(maxReleases+5))
		assert.Greater(t, most, int64(maxReleases/2))
		began := time.Now()
		for _, h := range f.homes {
			h.close()
		}
		assert.Positive(t, time.Since(began), "Close waits for them")
		for _, l := range slow {
			assert.Zero(t, l.held())
		}
	})
}

// The release at a server that does not answer is the client's affair.
func TestNoReleaseWaitsForAServerThatIsSilent(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, l := f.servers(5)
		for range 100 {
			h := f.held(l)
			servers[0].change(func() { servers[0].silent, servers[0].shown = true, time.Second })
			before := f.homes[0].now.Load()
			require.NoError(t, h.Release(t.Context()))
			assert.Equal(t, before, f.homes[0].now.Load(), "no goroutine is left behind")
			servers[0].change(func() { servers[0].silent, servers[0].shown = false, 0 })
		}
		// Without the silent server the others are not enough, so its release is waited for.
		h := f.held(l)
		for _, s := range servers[:3] {
			s.change(func() { s.silent, s.shown = true, time.Second })
		}
		result := begin(func() error { return h.Release(t.Context()) })
		pending(t, result)
		servers[0].setSilent(false)
		require.NoError(t, <-result)
		for _, s := range servers {
			s.setSilent(false)
		}
	})
}

// The clients are closed, and start no goroutine any more.
func TestALockOfClosedClientsIsGivenBackAllTheSame(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, l := f.servers(3)
		h, err := take(l, forever)
		require.NoError(t, err)
		for _, h := range f.homes {
			h.close()
		}
		require.NoError(t, h.Release(t.Context()))
		h, err = take(l, Options{})
		require.NoError(t, err)
		require.NoError(t, h.Release(t.Context()))
		for _, s := range servers {
			assert.Zero(t, s.held())
		}
	})
}

// A caller gives the lock back without waiting, as a part of a whole that was not acquired.
func TestAHoldThatIsReleasedLaterIsOverAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, l := f.servers(3)
		p, err := l.Acquire(t.Context(), contract.NewOwner(), forever)
		require.NoError(t, err)
		synctest.Wait()
		servers[0].freeze = time.Hour
		p.ReleaseLater()
		require.ErrorIs(t, p.Err(), contract.ErrNotHeld)
		require.Error(t, p.Context().Err())
		for _, s := range servers {
			assert.Zero(t, s.held())
		}
		require.ErrorIs(t, p.Release(t.Context()), contract.ErrNotHeld)
	})
}

// With one server of three out of reach a waiter still stands in the line of a part that another
// owner has, and so has the lock as soon as it is released.
func TestAWaiterIsServedAtOnceAlthoughAServerIsAway(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		locks, red := f.servers(3)
		locks[2].err = errors.New("no connection")
		first, second := locks[0].occupy(), locks[1].occupy()
		result := begin(func() error { _, err := take(red, forever); return err })
		time.Sleep(time.Minute)
		pending(t, result)
		released := time.Now()
		require.NoError(t, first.Release(t.Context()))
		require.NoError(t, second.Release(t.Context()))
		require.NoError(t, <-result)
		assert.Zero(t, time.Since(released))
	})
}

// A part that is granted late is behind the part that the attempt waits for: others may need it.
func TestAPartBehindTheAwaitedOneIsGivenBackAlsoIfItIsGrantedLate(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, l := f.servers(3)
		others := occupy(servers[:2])
		servers[2].trip = 100 * time.Millisecond
		result := begin(func() error { _, err := take(l, Options{Wait: time.Hour}); return err })
		time.Sleep(150 * time.Millisecond)
		pending(t, result)
		assert.Contains(t, f.told(), "grants red")
		assert.Zero(t, servers[2].held(), "it is let go")
		for _, p := range others {
			require.NoError(t, p.Release(t.Context()))
		}
		require.NoError(t, <-result)
	})
}
