package servers_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
)

// TestWhatAClientCosts makes the table of docs/connecting.md.
func TestWhatAClientCosts(t *testing.T) {
	redistest.Slow(t)
	const clients, locks = 20, 1000
	s := own(t)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, running := heap(), runtime.NumGoroutine()
	show := func(what string) {
		t.Logf("%-30s %4d KiB, %.1f goroutines, %d connections of %d clients", what,
			(heap()-before)/1024/clients, float64(runtime.NumGoroutine()-running)/clients, len(connections(s, "")), clients)
	}
	all := make([]*rlock.Client, clients)
	for i := range all {
		var err error
		all[i], err = rlock.New(rlock.Config{Redis: s.Options()})
		require.NoError(t, err)
		t.Cleanup(func() { _ = all[i].Close() })
	}
	show("new")
	assert.Len(t, connections(s, ""), clients)
	for i, c := range all {
		require.NoError(t, c.NewLock(fmt.Sprint(i)).Do(s.Ctx, testbed.Nothing))
	}
	require.Eventually(t, func() bool { return len(connections(s, "")) == 2*clients }, testbed.Hang, time.Millisecond)
	show("after the first lock")
	require.Eventually(t, func() bool {
		for i, c := range all {
			require.NoError(t, c.NewLock(fmt.Sprint(i)).Do(s.Ctx, testbed.Nothing))
		}
		return len(connections(s, "")) == 3*clients
	}, testbed.Hang, time.Millisecond)
	show("with a lone caller")
	for i, c := range all {
		for n := range locks {
			_, err := c.NewLock(fmt.Sprint(i, ":", n)).Acquire(s.Ctx)
			require.NoError(t, err)
		}
	}
	show("with 1000 locks")
	assert.Len(t, connections(s, ""), 3*clients)
}
