package once_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/go-rlock/rlock/rlock/once"
)

// On the embedded server, a real one and a Cluster: one runs, those that wait get the value by a
// message or, if it is long, by a look, and those that come later get it while it is kept.
func TestOnServersOfEachSort(t *testing.T) {
	redistest.Over(t, testbed.OneOrMany, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		for name, o := range map[string]once.Options{"inline": {}, "long": {Inline: -1}, "kept": {Keep: time.Minute}} {
			t.Run(name, func(t *testing.T) {
				var runs atomic.Int32
				locks, entered := make([]*rlock.Client, 3), make(chan struct{}, 1)
				leave := make(chan struct{})
				groups := make([]*once.Group, 3)
				for i := range groups {
					locks[i] = s.NewClient()
					groups[i] = once.New(locks[i], o)
					defer groups[i].Close()
				}
				fn := func(context.Context) ([]byte, error) {
					runs.Add(1)
					entered <- struct{}{}
					<-leave
					return []byte("the value"), nil
				}
				var wg sync.WaitGroup
				ask := func(g *once.Group) {
					wg.Go(func() {
						value, _, err := g.Do(s.Ctx, testbed.Key, fn)
						assert.NoError(t, err)
						assert.Equal(t, "the value", string(value))
					})
				}
				ask(groups[0])
				<-entered
				for i, g := range groups {
					for range 5 {
						ask(g)
					}
					awaitCallers(t, groups, i, 5)
					if i > 0 {
						s.AwaitWaiters(int64(i), testbed.Key)
					}
				}
				close(leave)
				wg.Wait()
				assert.EqualValues(t, 1, runs.Load())
				value, shared, err := groups[1].Do(s.Ctx, testbed.Key, func(context.Context) ([]byte, error) { return []byte("another"), nil })
				require.NoError(t, err)
				assert.Equal(t, o.Keep > 0, shared)
				assert.Equal(t, map[bool]string{true: "the value", false: "another"}[shared], string(value))
			})
		}
	})
}

// Redis stands still while the value is stored: it is stored once, or the next one runs, and all
// have one value.
func TestRedisStandsStillAtTheStore(t *testing.T) {
	redistest.Slow(t)
	server := redistest.Standalone(t)
	s := testbed.At(t, server)
	var runs atomic.Int32
	var groups []*once.Group
	for range 3 {
		locks, err := rlock.New(rlock.Config{Redis: server.Options()})
		require.NoError(t, err)
		group := once.New(locks, once.Options{})
		groups = append(groups, group)
		t.Cleanup(func() {
			group.Close()
			assert.NoError(t, locks.Close())
		})
	}
	entered, stands := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	values := map[string]int{}
	var wg sync.WaitGroup
	ask := func(g *once.Group) {
		wg.Go(func() {
			value, _, err := g.Do(s.Ctx, testbed.Key, func(context.Context) ([]byte, error) {
				if n := runs.Add(1); n > 1 {
					return []byte{byte('0' + n)}, nil
				}
				close(entered)
				<-stands
				return []byte("1"), nil
			})
			assert.NoError(t, err)
			mu.Lock()
			defer mu.Unlock()
			values[string(value)]++
		})
	}
	ask(groups[0])
	<-entered
	for i, g := range groups {
		for range 10 {
			ask(g)
		}
		awaitCallers(t, groups, i, 10)
		if i > 0 {
			s.AwaitWaiters(int64(i), testbed.Key)
		}
	}
	server.Pause()
	close(stands)
	time.Sleep(3 * time.Second) // Redis stands still for as long
	server.Resume()
	wg.Wait()
	assert.Len(t, values, 1, "%v", values)
	assert.LessOrEqual(t, runs.Load(), int32(2))
}

// awaitCallers waits until that group has so many more callers. The first one has one whose
// function runs.
func awaitCallers(t *testing.T, groups []*once.Group, i, more int) {
	t.Helper()
	if i == 0 {
		more++
	}
	require.Eventually(t, func() bool { return groups[i].Callers(testbed.Key) == more }, testbed.Hang, time.Millisecond)
}
