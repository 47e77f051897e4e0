package history_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/internal/redistest"
)

// role names the file that a child of this test writes until it is killed.
const role = "HISTORY_TEST_FILE"

func TestMain(m *testing.M) {
	path := os.Getenv(role)
	if path == "" {
		os.Exit(m.Run())
	}
	r, err := history.Create(path, "victim")
	if err != nil {
		panic(err)
	}
	go r.Pulse(context.Background())
	for {
		r.Begin(history.Op{Method: "Lock", Names: []string{"orders:42"}})
		if _, err := fmt.Println("noted"); err != nil {
			return
		}
		time.Sleep(time.Millisecond) // a long file takes long to read
	}
}

// A process that is stopped for a while, and killed, has one clock with this one, and has recorded
// all that it did before, and when it could not run.
func TestWhatAProcessHasRecordedBeforeAKillIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "victim")
	command, err := redistest.Self(role + "=" + path)
	require.NoError(t, err)
	before := history.Now()
	var noted atomic.Int64
	child, err := redistest.Start(command, func(string) { noted.Add(1) })
	require.NoError(t, err)
	t.Cleanup(child.Kill)
	stalled := func() bool { // at first the pulse may not have begun
		if child.Suspend() != nil {
			return true // a system that cannot
		}
		stopped := history.Now()
		const stall = 200 * time.Millisecond
		time.Sleep(stall)
		goesOn := history.Now()
		require.NoError(t, child.Resume())
		time.Sleep(stall) // until it is noted
		events, err := history.ReadFiles(path)
		return err == nil && slices.ContainsFunc(events, func(e history.Event) bool {
			return e.Kind == history.Stalled && e.At >= goesOn && e.At.Add(-e.Stall) <= stopped.Add(stall/2)
		})
	}
	require.Eventually(t, func() bool { return noted.Load() > 0 }, redistest.Hang, time.Millisecond)
	require.Eventually(t, stalled, redistest.Hang, time.Millisecond)
	child.Kill()
	events, err := history.ReadFiles(path)
	require.NoError(t, err)
	require.Greater(t, events[0].At, before)
	require.Less(t, events[len(events)-1].At, history.Now())
	events = slices.DeleteFunc(events, func(e history.Event) bool { return e.Kind == history.Stalled })
	require.GreaterOrEqual(t, int64(len(events)), noted.Load())
	require.EqualValues(t, len(events), events[len(events)-1].Number)
}

func TestALastLineThatWasCutIsIgnored(t *testing.T) {
	events, err := history.Read(strings.NewReader("{\"at\":1}\n{\"at\":2,\"kind\":"))
	require.NoError(t, err)
	require.Equal(t, []history.Event{{At: 1}}, events)
	_, err = history.Read(strings.NewReader("{\"at\":1\n{\"at\":2}\n"))
	require.ErrorContains(t, err, "event 1")
}

func TestALookHasTheTimeBeforeItAndAReturnTheTimeAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []history.Event
		r := history.NewRecorder("a", func(e history.Event) error {
			events = append(events, e)
			return nil
		})
		begin := history.Now()
		require.Equal(t, time.Now(), time.Unix(0, int64(begin)))
		call := r.Begin(history.Op{Method: "Acquire"})
		time.Sleep(time.Second)
		call.End(history.Result{Outcome: history.Acquired, Until: history.At(time.Now().Add(time.Hour))})
		call.Look(func() history.Belief {
			time.Sleep(time.Second)
			return history.Belief{Held: true, Until: history.At(time.Time{})}
		})
		require.Equal(t, begin, events[0].At)
		require.Equal(t, begin.Add(time.Second), events[1].At)
		require.Equal(t, time.Hour, events[1].Result.Until.Sub(events[1].At))
		require.Equal(t, begin.Add(time.Second), events[2].At)
		require.Equal(t, history.Belief{Held: true, Seen: begin.Add(2 * time.Second)}, *events[2].Belief)
	})
}
