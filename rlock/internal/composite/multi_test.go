package composite

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The order is by name, then by kind, then by server, with the write lock before the read lock.
func TestPartsAreTakenInOneOrder(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		here, there := f.home(), f.home()
		b, a2, a1, fair, reads, writes := f.lock(here, "b"), f.lock(there, "a"), f.lock(here, "a"), f.lock(f.home(), "a"), f.lock(here, "c"), f.lock(here, "c")
		fair.leaves[0].Kind, reads.leaves[0].Shared = 1, true
		order := []*fakeLock{a1, a2, fair, b, writes, reads}
		for _, given := range [][]*fakeLock{{b, a2, a1, fair, reads, writes}, {writes, reads, fair, a1, a2, b}, {a1, a2, b, fair, reads, writes}} {
			l := NewMulti(all(given...))
			assert.Equal(t, "a,b,c", l.Name())
			assert.Equal(t, all(order...), l.parts)
		}
		l := NewMulti([]Locker{b, NewMulti(all(a1, b)), b})
		assert.Equal(t, all(a1, b), l.parts, "the same lock counts once, and the parts of a multi-lock as if they were given themselves")
		h, err := take(l, forever)
		require.NoError(t, err)
		require.NoError(t, h.Release(t.Context()))
		assert.Equal(t, []string{"asks a", "grants a", "asks b", "grants b"}, f.told()[:4])
	})
}

// The same locks of one key in other parts make another lock.
func TestLocksAreTheSameIfTheirPartsAre(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		var s []*fakeLock
		for range 4 {
			s = append(s, f.lock(f.home(), "a"))
		}
		red := func(parts ...*fakeLock) Locker { return redOf("a", len(parts), parts...) }
		l, same, other := NewMulti([]Locker{red(s[:3]...), s[3]}), NewMulti([]Locker{s[3], red(s[:3]...)}), NewMulti([]Locker{s[0], red(s[1:]...)})
		o := contract.NewOwner()
		require.NoError(t, l.Take(t.Context(), o, forever))
		require.ErrorIs(t, other.Unlock(t.Context(), o), contract.ErrNotHeld)
		require.NoError(t, same.Unlock(t.Context(), o))
	})
}

func TestAMultiLockThatIsRefusedAPartGivesTheOthersBack(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		home := f.home()
		a, b, c := f.lock(home, "a"), f.lock(home, "b"), f.lock(home, "c")
		l := NewMulti(all(a, b, c))
		other := b.occupy()
		_, err := take(l, Options{})
		require.ErrorIs(t, err, contract.ErrNotAcquired)
		assert.Zero(t, a.held())

		began := time.Now()
		_, err = take(l, Options{Wait: time.Second})
		require.ErrorIs(t, err, contract.ErrNotAcquired)
		assert.Equal(t, time.Second, time.Since(began), "the wait is for all parts together")
		assert.Zero(t, a.held())

		b.trip, began = time.Second, time.Now()
		_, err = take(l, Options{Wait: 3 * time.Second, Lease: time.Minute})
		require.ErrorIs(t, err, contract.ErrNotAcquired)
		assert.Equal(t, 3*time.Second, time.Since(began), "also with an attempt before the watchdog keeps the others")
		b.trip = 0

		ctx, cancel := context.WithCancel(t.Context())
		result := begin(func() error {
			_, err := l.Hold(ctx, ctx, contract.NewOwner(), forever)
			return err
		})
		pending(t, result)
		assert.Equal(t, 1, a.held())
		f.told()
		cancel()
		require.ErrorIs(t, <-result, context.Canceled)
		assert.Equal(t, []string{"leaves a"}, f.told(), "a caller that has left waits for no release")

		require.NoError(t, other.Release(t.Context()))
		c.err = wire.ErrWrongType
		_, err = take(l, forever)
		require.ErrorIs(t, err, wire.ErrWrongType)
		assert.Zero(t, a.held()+b.held())
	})
}

func TestAMultiLockBeginsAnewWhenAPartIsLostWhileItWaits(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		a, b := f.lock(f.home(), "a"), f.lock(f.home(), "b")
		other := b.occupy()
		l := NewMulti(all(a, b))
		var h *Hold
		result := begin(func() (err error) {
			h, err = take(l, Options{Lease: time.Minute, Wait: contract.Forever})
			return err
		})
		pending(t, result)
		f.told()
		a.the().lose(errGone)
		pending(t, result)
		assert.Zero(t, a.the().lease, "the watchdog keeps it")
		assert.Equal(t, []string{"loses a", "asks a", "grants a", "asks b"}, f.told())
		require.NoError(t, other.Release(t.Context()))
		require.NoError(t, <-result)
		require.NoError(t, h.Err())
		require.NoError(t, h.Release(t.Context()))

		b.occupy()
		result = begin(func() error { _, err := take(l, forever); return err })
		pending(t, result)
		a.change(func() { a.err = wire.ErrClosed }) // before the loss, after which the part is asked for at once
		a.the().lose(wire.ErrClosed)
		require.ErrorIs(t, <-result, wire.ErrClosed, "it waits for no part of another client")
	})
}

// The hold has ended before a part's client goes on, so before another owner can have the
// part.
func TestTheLossOfAPartEndsTheHoldAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		a, b := f.lock(f.home(), "a"), f.lock(f.home(), "b")
		l, o := NewMulti(all(a, b)), contract.NewOwner()
		require.NoError(t, l.Take(t.Context(), o, forever))
		h, err := l.Hold(t.Context(), t.Context(), o, forever)
		require.NoError(t, err)
		assert.Equal(t, 2, l.Depth(o))
		a.the().lose(errGone)
		require.ErrorIs(t, context.Cause(h.Context()), contract.ErrLost)
		require.ErrorIs(t, h.Err(), contract.ErrLost)
		assert.True(t, h.ValidUntil().IsZero())
		assert.Equal(t, 1, b.held(), "the parts that are left are released, those of the other level are not")
		require.ErrorIs(t, l.Take(t.Context(), o, forever), contract.ErrLost, "a nested lock")
		require.ErrorIs(t, h.Release(t.Context()), contract.ErrLost)
		require.ErrorIs(t, h.Release(t.Context()), contract.ErrNotHeld)
		require.NoError(t, l.Unlock(t.Context(), o))

		require.NoError(t, l.Take(t.Context(), o, forever))
		b.the().lose(errGone)
		assert.Zero(t, a.held())
		assert.Zero(t, l.Depth(o))
		assert.Empty(t, l.home.taken, "the losses remember it, up to a bound")
		require.ErrorIs(t, l.Unlock(t.Context(), o), contract.ErrLost)
		require.ErrorIs(t, l.Unlock(t.Context(), o), contract.ErrNotHeld)

		_, err = a.Acquire(t.Context(), o, Options{})
		require.NoError(t, err)
		assert.Zero(t, l.Depth(o), "a part by itself is no level of the whole")
		for _, was := range []bool{true, false} {
			freed, err := l.ForceUnlock(t.Context())
			require.NoError(t, err)
			assert.Equal(t, was, freed)
		}
	})
}

// The part is lost before the call for it has returned, or while the others are added.
func TestAPartThatIsLostBeforeTheHoldHasItCountsForNothing(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		a, b := f.lock(f.home(), "a"), f.lock(f.home(), "b")
		l := NewMulti(all(a, b))
		b.early = errGone
		_, err := take(l, Options{})
		require.Error(t, err)
		require.NotErrorIs(t, err, contract.ErrLost, "nothing was held")
		assert.Zero(t, a.held())
		b.early = errGone
		h, err := take(l, forever)
		require.NoError(t, err, "it begins anew")
		require.NoError(t, h.Release(t.Context()))

		h = &Hold{of: l, options: forever, quit: func() {}}
		h.Begin(t.Context(), nil)
		m, err := h.take(t.Context(), a, Options{})
		require.NoError(t, err)
		n, err := h.take(t.Context(), b, Options{})
		require.NoError(t, err)
		m.part.(*fakePart).lose(errGone)
		assert.True(t, h.add(m, n))
		require.ErrorIs(t, h.Err(), contract.ErrLost)
		assert.Zero(t, b.held())
		assert.False(t, h.add(n), "it is over")
	})
}

// A part is a lock over several itself, and its loss is the loss of the whole.
func TestAPartMayBeALockOverSeveral(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, red := f.servers(3)
		one := f.lock(f.home(), "one")
		l := NewMulti([]Locker{red, one})
		assert.Len(t, l.Leaves(), 4)
		h := f.held(l)
		servers[0].the().lose(errGone)
		require.NoError(t, h.Err())
		h.SetLease(time.Minute)
		assert.Equal(t, time.Minute, servers[1].the().lease)
		servers[2].the().lose(errGone)
		require.ErrorIs(t, h.Err(), contract.ErrLost)
		assert.Zero(t, one.held()+servers[1].held())

		o := contract.NewOwner()
		require.NoError(t, l.Take(t.Context(), o, forever))
		synctest.Wait()
		servers[0].the().lose(errGone)
		servers[2].the().lose(errGone)
		require.ErrorIs(t, l.Unlock(t.Context(), o), contract.ErrLost)
		require.NoError(t, red.Take(t.Context(), o, forever), "the owner has not lost the part by itself")
		require.NoError(t, red.Unlock(t.Context(), o))
	})
}

// together has the locks of a client acquired together, and counts the round trips.
func together(trips *int) func(*Config) {
	return func(c *Config) {
		c.AcquireAll = func(ctx context.Context, o contract.Owner, locks []Locker, options []Options) (parts []contract.Part, err error) {
			*trips++
			for i, l := range locks {
				part, err := l.Acquire(ctx, o, options[i])
				if err != nil {
					return parts, err
				}
				parts = append(parts, part)
			}
			return parts, nil
		}
	}
}

// The parts of one client that stand together in the order are asked for together; the call waits
// for the first part that is not free, and holds no part behind it.
func TestAMultiLockTakesTheFreePartsOfAClientTogether(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		trips := 0
		home, alone := f.home(together(&trips)), f.home()
		a, b, c, d, e := f.lock(home, "a"), f.lock(home, "b"), f.lock(home, "c"), f.lock(home, "d"), f.lock(alone, "e")
		l := NewMulti(all(e, d, c, b, a))
		h, err := take(l, forever)
		require.NoError(t, err)
		assert.Equal(t, 1, trips)
		require.NoError(t, h.Release(t.Context()))

		trips = 0
		other := c.occupy()
		_, err = take(l, Options{})
		require.ErrorIs(t, err, contract.ErrNotAcquired)
		assert.Equal(t, 1, trips, "it does not ask again")
		assert.Zero(t, a.held()+b.held()+d.held())

		trips = 0
		result := begin(func() error {
			h, err = take(l, Options{Wait: contract.Forever, Lease: time.Minute})
			return err
		})
		pending(t, result)
		assert.Equal(t, []int{1, 1, 0}, []int{a.held(), b.held(), d.held()}, "none behind the first that is not free")
		assert.Zero(t, a.the().lease, "the watchdog keeps what it has")
		a.the().lose(errGone)
		synctest.Wait()
		assert.Equal(t, []int{1, 1, 0}, []int{a.held(), b.held(), d.held()}, "a loss ends the wait, and all begins anew")
		require.NoError(t, other.Release(t.Context()))
		require.NoError(t, <-result)
		assert.Equal(t, 1, d.held())
		assert.Equal(t, time.Minute, a.the().lease)
		require.NoError(t, h.Release(t.Context()))
	})
}

// A caller that leaves while the free parts are asked for is told so, and not that another part is
// held.
func TestACallerThatLeavesBetweenTwoPartsIsToldSo(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		ctx, cancel := context.WithCancel(t.Context())
		trips := 0
		home := f.home(together(&trips), func(c *Config) {
			all := c.AcquireAll
			c.AcquireAll = func(ctx context.Context, o contract.Owner, locks []Locker, options []Options) ([]contract.Part, error) {
				parts, err := all(ctx, o, locks, options)
				cancel()
				return parts, err
			}
		})
		a, b := f.lock(home, "a"), f.lock(home, "b")
		b.occupy()
		_, err := NewMulti(all(a, b)).Hold(ctx, ctx, contract.NewOwner(), forever)
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, 1, trips)
		assert.Zero(t, a.held())
	})
}

// A nested level that is still being acquired when the first is released begins its lease all the
// same.
func TestALevelThatIsBeingAcquiredTakesThePlaceOfTheFirst(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		home, o := f.home(func(c *Config) { c.Observer = new(contract.Observer) }), contract.NewOwner()
		a, b := f.lock(home, "a"), f.lock(home, "b")
		l := NewMulti(all(a, b))
		hold := func(with Options) (*Hold, error) { return l.Hold(t.Context(), t.Context(), o, with) }
		first, err := hold(forever)
		require.NoError(t, err)
		a.trip = time.Second
		var nested *Hold
		result := begin(func() (err error) {
			nested, err = hold(Options{Wait: contract.Forever, Lease: time.Minute})
			return err
		})
		require.NoError(t, first.Release(t.Context()))
		require.NoError(t, <-result)
		a.trip = 0
		assert.Equal(t, time.Minute, nested.lease)
		assert.False(t, nested.until.IsZero(), "its lease has begun")
		assert.True(t, nested.whole.IsHeld())
		require.NoError(t, nested.Release(t.Context()))
	})
}

// A nested level that is lost while the first level seems lost is reported when the first level is
// released after all, and not if the first level is lost as well.
func TestALevelThatIsLostWhileTheFirstSeemsLostIsReported(t *testing.T) {
	released := func(first *Hold, _, nested *fakePart) {
		nested.lose(errGone)
		require.NoError(t, first.Release(context.Background()))
	}
	for _, row := range []struct {
		name  string
		guest bool
		ends  func(first *Hold, part, nested *fakePart)
		told  []string
	}{
		{"released", false, released, []string{"Acquired", "Acquired", "Released", "Lost"}},
		{"released, of a guest", true, released, []string{"Acquired", "Acquired", "Released", "Lost"}},
		{"lost", false, func(_ *Hold, part, nested *fakePart) {
			nested.lose(errGone)
			part.lose(errGone)
		}, []string{"Acquired", "Acquired", "Lost"}},
		{"found lost by its release", false, func(first *Hold, part, nested *fakePart) {
			part.lock.change(func() { part.lock.err = errGone })
			require.ErrorIs(t, first.Release(context.Background()), contract.ErrLost)
			nested.lose(errGone)
		}, []string{"Acquired", "Acquired", "Lost"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			virtual(t, func(t *testing.T, f *fleet) {
				var told []string
				note := func(what string) contract.Hook {
					return func(context.Context, contract.Event) { told = append(told, what) }
				}
				home, o := f.home(func(c *Config) {
					c.Observer = &contract.Observer{Acquired: note("Acquired"), Released: note("Released"), Lost: note("Lost")}
				}), contract.NewOwner()
				a := f.lock(home, "a")
				l := NewMulti(all(a, f.lock(home, "b")))
				hold := func(guest bool) (*Hold, *fakePart) {
					o := contract.Owner{ID: o.ID, Guest: guest}
					h, err := l.Hold(t.Context(), t.Context(), o, Options{})
					require.NoError(t, err)
					return h, a.the()
				}
				first, part := hold(false)
				_, nested := hold(row.guest)
				a.change(func() { part.until = time.Now() }) // the renewals of the part are not confirmed
				row.ends(first, part, nested)
				assert.Equal(t, row.told, told)
			})
		})
	}
}

// A part may be lost before the Observer is told that the lock was acquired, and the call may fail
// after all, since the hold that it is a guest of has ended.
func TestALossBeforeTheEndOfTheCallIsReportedAfterAcquiredOrNotAtAll(t *testing.T) {
	for told, fails := range map[string]error{"Acquired Lost ": nil, "GaveUp ": errGone} {
		virtual(t, func(t *testing.T, f *fleet) {
			events := ""
			note := func(what string) contract.Hook {
				return func(context.Context, contract.Event) { events += what + " " }
			}
			home := f.home(func(c *Config) {
				c.Observer = &contract.Observer{Acquired: note("Acquired"), Released: note("Released"), Lost: note("Lost"), GaveUp: note("GaveUp")}
			})
			a := f.lock(home, "a")
			l := NewMulti(all(a, f.lock(home, "b")))
			h := &Hold{of: l, owner: contract.NewHandleOwner(), quit: func() {}}
			err := h.observeCall(t.Context(), func() error {
				if err := l.obtain(t.Context(), t.Context(), h); err != nil {
					return err
				}
				a.the().lose(errGone)
				if fails != nil {
					h.undo(t.Context())
				}
				return fails
			})
			assert.Equal(t, fails, err)
			assert.Equal(t, told, events)
		})
	}
}

// Each part is asked, and the first part that is wanted tells the hold; a part that is added later
// is asked as well.
func TestAHoldOfSeveralIsWantedWithEachPart(t *testing.T) {
	for _, i := range []int{0, 1, 2} {
		virtual(t, func(t *testing.T, f *fleet) {
			a, b, c := f.lock(f.home(), "a"), f.lock(f.home(), "b"), f.lock(f.home(), "c")
			l := NewMulti(all(a, b))
			h, err := take(l, forever)
			require.NoError(t, err)
			wanted := h.Wanted()
			select {
			case <-wanted:
				t.Fatal("no owner waits")
			default:
			}
			m, err := h.take(t.Context(), c, forever)
			require.NoError(t, err)
			require.True(t, h.add(m))
			for _, part := range []*fakeLock{a, b, c, a, b}[i : i+2] {
				part.parts[0].tells()
			}
			<-wanted
			assert.Equal(t, wanted, h.Wanted())
			require.NoError(t, h.Release(t.Context()))
		})
	}
}
