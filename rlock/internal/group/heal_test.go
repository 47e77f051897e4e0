package group

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

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
		require.Len(t, h.has(), 2)
		other.ReleaseLater()
		time.Sleep(longest + 2*lookEvery)
		assert.Len(t, h.has(), 3)
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
			looks := int(longest/lookEvery) + 2 // this one is after the grant
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
			assert.Len(t, h.has(), 4, what)
			time.Sleep(longest + 2*lookEvery)
			assert.Len(t, h.has(), 5, what)
			require.NoError(t, h.Release(t.Context()))
		})
	}
}

func TestALockThatDoesNotHeal(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, l := f.servers(3)
		h, err := take(l, Options{Lease: time.Hour, Wait: terms.Forever})
		require.NoError(t, err)
		synctest.Wait()
		servers[0].the().lose(errGone)
		time.Sleep(time.Minute)
		assert.Len(t, h.has(), 2, "a fixed lease")
		require.NoError(t, h.Release(t.Context()))

		f.homes[0].set(func() { f.homes[0].refused = wire.ErrNoPermission })
		h = f.held(l)
		var looked, after int
		f.homes[0].set(func() { looked = f.homes[0].looked })
		servers[0].the().lose(errGone)
		time.Sleep(time.Hour)
		assert.Len(t, h.has(), 2, "a server that refuses INFO")
		f.homes[0].set(func() { after = f.homes[0].looked })
		assert.Equal(t, looked+1, after, "it is asked once")
		require.NoError(t, h.Release(t.Context()))
	})
}

// The part of a hold is another's most of the time: a waiter for the red lock takes it each time that it is free.
func TestALostPartIsWaitedForInTheLine(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, l := f.servers(3)
		h := f.held(l)
		servers[0].the().lose(errGone)
		other := servers[0].occupy()
		time.Sleep(longest + lookEvery/2)
		require.NoError(t, other.Release(t.Context()))
		synctest.Wait()
		assert.Len(t, h.has(), 3, "it is not left to the next look")
		require.NoError(t, h.Release(t.Context()))
	})
}

func TestTheFirstLookAtAnOldServerIsWhenItIsOldEnough(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, _ := f.servers(3)
		for _, home := range f.homes {
			home.Longest = longest + time.Second
		}
		l := NewRed("red", lockers(servers...), 3)
		h := f.held(l)
		servers[0].the().lose(errGone)
		time.Sleep(longest + time.Second + confirmEvery)
		assert.Len(t, h.has(), 3)
		require.NoError(t, h.Release(t.Context()))
	})
}

// One hold waits for a part that another process has. It does not keep a second one waiting, nor leave its wait behind.
func TestHoldsWaitForTheirPartsSideBySide(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		var homes []*fakeHome
		for range 3 {
			homes = append(homes, f.home())
		}
		red := func(name string) (locks []*fakeLock, h *Hold) {
			for _, home := range homes {
				locks = append(locks, f.lock(home, name))
			}
			h, err := take(NewRed(name, lockers(locks...), 3), forever)
			require.NoError(t, err)
			return locks, h
		}
		servers, first := red("first")
		others, second := red("second")
		synctest.Wait()
		servers[0].the().lose(errGone)
		others[0].the().lose(errGone)
		other := servers[0].occupy()
		time.Sleep(longest + confirmEvery)
		assert.Len(t, first.has(), 2)
		assert.Len(t, second.has(), 3)
		require.NoError(t, first.Release(t.Context()))
		synctest.Wait()
		require.NoError(t, other.Release(t.Context()))
		synctest.Wait()
		assert.Zero(t, servers[0].held(), "a hold that is over waits for nothing")
		require.NoError(t, second.Release(t.Context()))
	})
}
