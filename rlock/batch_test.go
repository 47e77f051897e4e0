package rlock_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

func TestLocksThatAreDueAtAboutTheSameTimeAreRenewedInFewCalls(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		const n = 100
		for i := range n {
			require.NoError(t, p.NewLock(fmt.Sprint(key, i)).Lock(me))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(11 * time.Second)
		renewed, calls := 0, 0
		for _, f := range p.mirrors() {
			if f.Is("EVAL") {
				continue // the server had not seen the script yet
			}
			calls++
			keys, err := strconv.Atoi(f.Args[2])
			require.NoError(t, err)
			assert.LessOrEqual(t, keys, 32, "larger calls would block Redis for too long")
			renewed += keys
		}
		assert.Equal(t, n, renewed)
		assert.LessOrEqual(t, calls, 11, "at most one call for each tick of the wheel in a tenth of a second")
		for i := range n {
			assert.Greater(t, w.ttl(fmt.Sprint(key, i)), 28*time.Second)
			require.NoError(t, p.NewLock(fmt.Sprint(key, i)).Unlock(me))
		}
	})
}

// One lock that cannot be renewed does not affect the others, though they share a call.
func TestALockThatCannotBeRenewedAffectsNoOtherOfItsBatch(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	for name, spoil := range map[string]func(s *site, name string) (mend func()){
		"its key is gone": func(s *site, name string) func() {
			s.number("DEL", name)
			return nil
		},
		"its key is of another type": func(s *site, name string) func() {
			require.NoError(s.t, s.do("SET", name, "x").Error())
			return nil
		},
		"the ACL excludes its name": func(s *site, name string) func() {
			s.admin("ACL", "SETUSER", "default", "resetkeys", "~even:*", "~redisson_lock__channel:*")
			return func() { s.admin("ACL", "SETUSER", "default", "allkeys") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := at(t, redistest.Standalone(t, "--save", ""))
			client := s.client(withLease(lease))
			me := rlock.WithOwner(s.ctx, rlock.NewOwner())
			s.ctx = me
			var holds []*rlock.Hold
			take := func(name string) {
				hold, err := client.NewLock(name).Acquire(me)
				require.NoError(t, err)
				holds = append(holds, hold)
			}
			take("odd")
			for i := range 8 {
				take(fmt.Sprint("even:", i))
			}
			mend := spoil(s, "odd")
			renewed := time.Now().Add(lease)
			for _, hold := range holds[1:] {
				require.Eventually(t, func() bool { return hold.ValidUntil().After(renewed) }, hang, time.Millisecond)
			}
			if mend == nil {
				<-holds[0].Context().Done()
				assert.ErrorIs(t, context.Cause(holds[0].Context()), rlock.ErrLost)
				s.do("DEL", "odd")
			} else {
				assert.NoError(t, context.Cause(holds[0].Context()), "an error is not a loss")
				mend()
				require.Eventually(t, func() bool { return holds[0].ValidUntil().After(renewed) }, hang, time.Millisecond)
				assert.NoError(t, holds[0].Release(me))
			}
			for _, hold := range holds[1:] {
				assert.NoError(t, hold.Release(me))
			}
		})
	}
}
