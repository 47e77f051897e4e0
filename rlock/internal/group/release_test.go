package group

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/terms"
)

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
			s.err = terms.ErrUnconfirmed
		}
		require.ErrorIs(t, h.Release(t.Context()), terms.ErrUnconfirmed)
	})
}

// One of five servers is slow, and thousands of calls a second leave their release there to themselves.
func TestReleasesThatAreLeftBehindHaveABound(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		var homes []*fakeHome
		for range 5 {
			homes = append(homes, f.home())
		}
		var slow []*fakeLock // on one of the servers
		for i := range 3 * maxReleases {
			var parts []*fakeLock
			for _, h := range homes {
				parts = append(parts, f.lock(h, fmt.Sprint("red", i)))
			}
			parts[2].freeze = 4 * time.Second
			slow = append(slow, parts[2])
			h := f.held(NewRed("red", lockers(parts...), 5))
			require.NoError(t, h.Release(t.Context()))
		}
		most := int64(0)
		for _, h := range f.homes {
			most = max(most, h.most)
		}
		assert.LessOrEqual(t, most, int64(maxReleases+5))
		assert.Greater(t, most, int64(maxReleases/2))
		began := time.Now()
		for _, h := range homes {
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
		// Without it they are not enough: it is waited for.
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

// The clients start no goroutine any more.
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

// Given back by a caller that does not wait, as a part of a whole that was not acquired.
func TestAHoldThatIsReleasedLaterIsOverAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, l := f.servers(3)
		p, err := l.Acquire(t.Context(), terms.NewOwner(), forever)
		require.NoError(t, err)
		synctest.Wait()
		servers[0].freeze = time.Hour
		p.ReleaseLater()
		require.ErrorIs(t, p.Err(), terms.ErrNotHeld)
		require.Error(t, p.Context().Err())
		for _, s := range servers {
			assert.Zero(t, s.held())
		}
		require.ErrorIs(t, p.Release(t.Context()), terms.ErrNotHeld)
	})
}
