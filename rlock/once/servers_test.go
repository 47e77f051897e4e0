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

// awaitCallers waits until that group has so many more callers. The first one has one whose
// function runs.
func awaitCallers(t *testing.T, groups []*once.Group, i, more int) {
	t.Helper()
	if i == 0 {
		more++
	}
	require.Eventually(t, func() bool { return groups[i].Callers(testbed.Key) == more }, testbed.Hang, time.Millisecond)
}
