package insight_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAWatchShowsWhatInspectShows(t *testing.T) {
	redistest.Over(t, append([]redistest.Kind{redistest.KindEmbedded}, onServers...), func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		p, q := s.NewClient(), s.NewClient()
		testbed.Take(t, s.Ctx, p.NewFencedLock("fenced"))
		testbed.Take(t, s.Ctx, p.NewReadWriteLock("read").Read())
		testbed.Take(t, s.Ctx, q.NewReadWriteLock("read").Read())
		testbed.Take(t, s.Ctx, p.NewReadWriteLock("write").Write())
		testbed.Permits(t, s.Ctx, q.NewSemaphore("semaphore", 3), 2)
		testbed.Take(t, s.Ctx, p.NewLock("awaited"))
		waiter := testbed.Start(func() error { return q.NewLock("awaited").Do(s.Ctx, testbed.Nothing) })
		s.AwaitWaiters(1, "awaited")
		require.NoError(t, testbed.ErrorOf(s.Do("SET", "other", "data").ToString()))

		names := []string{"fenced", "read", "write", "semaphore", "awaited", "free", "other", ""}
		locks, errs := inspect.Of(q).Watch().Locks(s.Ctx, names)
		for at, name := range names {
			expected, err := inspect.Of(q).Lock(s.Ctx, name)
			if err != nil {
				require.ErrorContains(t, errs[at], err.Error())
				assert.Equal(t, inspect.Lock{}, locks[at])
				continue
			}
			require.NoError(t, errs[at])
			expected.Lease, expected.Unresolved = locks[at].Lease, locks[at].Unresolved
			for _, l := range []inspect.Lock{expected, locks[at]} { // permits come in the order of their ends, which a renewal changes
				slices.SortFunc(l.Holders, func(a, b inspect.Holder) int { return strings.Compare(a.Owner, b.Owner) })
			}
			for n := range expected.Holders {
				expected.Holders[n].Lease = locks[at].Holders[n].Lease
			}
			assert.Equal(t, expected, locks[at])
		}
		require.ErrorIs(t, errs[6], rlock.ErrWrongType)
		require.ErrorIs(t, errs[7], rlock.ErrInvalidName)
		testbed.Frees(t, s.Ctx, p.NewLock("awaited"))
		require.NoError(t, redistest.Await(t, waiter))
	})
}

func TestAWatchFindsAllLocksAgainAndAgain(t *testing.T) {
	redistest.Over(t, append([]redistest.Kind{redistest.KindEmbedded}, onServers...), func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		client := s.NewClient(testbed.WithPrefix("shop:"))
		testbed.Take(t, s.Ctx, s.NewClient().NewLock("another prefix"))
		var taken []string
		for n := range 50 {
			taken = append(taken, fmt.Sprint("lock ", n), fmt.Sprint("permit ", n))
			testbed.Take(t, s.Ctx, client.NewLock(taken[2*n]))
			testbed.Permits(t, s.Ctx, client.NewSemaphore(taken[2*n+1], 3), 1)
		}
		all, err := testbed.Names(s.Ctx, client, "")
		require.NoError(t, err)
		assert.ElementsMatch(t, taken, all, "replicas repeat the names of their primary")
		watch := inspect.Of(client).Watch()
		for range 2 {
			found := make(map[string]bool)
			for range 2 {
				names, err := watch.Names(s.Ctx)
				require.NoError(t, err)
				for _, name := range names {
					found[name] = true
				}
			}
			for _, name := range taken {
				assert.Contains(t, found, name)
			}
			assert.NotContains(t, found, "another prefix")
		}
	})
}

func TestAWatchReadsAHundredLocksByOneCommand(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, operator := w.NewClient(), w.NewClient()
		var names []string
		for n := range 100 {
			names = append(names, fmt.Sprint("orders:", n))
			testbed.Take(t, w.Ctx, p.NewLock(names[n]))
		}
		watch := inspect.Of(operator.Client).Watch()
		_, errs := watch.Locks(w.Ctx, names) // the server learns the script
		require.NoError(t, errs[99])
		before := len(operator.Net.Sent(""))
		_, errs = watch.Locks(w.Ctx, names)
		require.NoError(t, errs[99])
		assert.Equal(t, 1, len(operator.Net.Sent(""))-before)
		require.NoError(t, operator.Close())
		_, errs = watch.Locks(w.Ctx, names)
		require.ErrorIs(t, errs[99], rlock.ErrClosed)
		_, err := watch.Names(w.Ctx)
		require.ErrorIs(t, err, rlock.ErrClosed)
	})
}

// The rights are the ACL lines of docs/operations.md for Inspect and Locks, with and without the
// line of fenced locks. A key of others does not hide the locks.
func TestAWatchNeedsTheRightsToInspect(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Standalone(t))
	others := s.NewClient()
	testbed.Take(t, s.Ctx, others.NewLock("of others"))
	for _, fenced := range []bool{false, true} {
		lines := append(s.AclLines(), "Inspect and Locks")
		if fenced {
			lines = append(lines, "FencedLock")
		}
		client, err := rlock.New(s.Limited(s.Rights(lines...)...))
		require.NoError(t, err)
		name := fmt.Sprint("orders:", fenced)
		if fenced {
			testbed.Take(t, s.Ctx, client.NewFencedLock(name))
		} else {
			testbed.Take(t, s.Ctx, client.NewLock(name))
		}
		watch := inspect.Of(client).Watch()
		names, err := watch.Names(s.Ctx)
		require.NoError(t, err)
		assert.Contains(t, names, name)
		for range 2 {
			locks, errs := watch.Locks(s.Ctx, []string{name, "of others", "orders:free"})
			require.NoError(t, errs[0])
			require.ErrorIs(t, errs[1], rlock.ErrNoPermission)
			require.NoError(t, errs[2])
			require.Len(t, locks[0].Holders, 1)
			assert.NotNil(t, locks[0].Holders[0].Process)
			assert.Equal(t, fenced, locks[0].Token > 0)
		}
		require.NoError(t, client.Close())
	}
}
