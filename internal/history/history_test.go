package history_test

import (
	"bytes"
	"context"
	"errors"
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
		r.Begin(history.Op{Method: history.Lock, Name: "orders:42"})
		if _, err := fmt.Println("noted"); err != nil {
			return
		}
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
		stopped := history.Now()
		if child.Suspend() != nil {
			return true // a system that cannot
		}
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

func TestEveryEventIsReadAsItWasWrittenInTheOrderOfTime(t *testing.T) {
	dir := t.TempDir()
	r, err := history.Create(filepath.Join(dir, "a"), "a")
	require.NoError(t, err)
	_, err = history.Create(filepath.Join(dir, "a"), "b")
	require.ErrorIs(t, err, os.ErrExist)
	other, err := history.Create(filepath.Join(dir, "b"), "b")
	require.NoError(t, err)
	op := history.Op{Worker: 3, Method: history.Acquire, Name: "orders:42", Lease: time.Second, Kept: true}
	result := history.Result{Outcome: history.Acquired, Owner: "a:1", Count: 1, Token: 7, Until: history.Now(), Watched: true}
	fault := history.Fault{What: "FLUSHALL", Forgets: true, Name: "orders:42", Victim: "b"}
	since := history.Now()
	call := r.Begin(op)
	call.End(result)
	call.Look(func() history.Belief { return history.Belief{Held: true, Until: 5, Count: 1} })
	call.Told("Done")
	heal := r.Inject(fault)
	other.Leftover("a key")
	heal()
	heal()
	r.Happened(fault, since, history.Now())
	require.NoError(t, r.Close())
	require.NoError(t, other.Close())

	events, err := history.ReadFiles(filepath.Join(dir, "b"), filepath.Join(dir, "a"))
	require.NoError(t, err)
	require.Equal(t, since, events[0].At)
	for i := range events {
		events[i].At = 0
		if events[i].Belief != nil {
			require.NotZero(t, events[i].Belief.Seen)
			events[i].Belief.Seen = 0
		}
	}
	require.Equal(t, []history.Event{
		{Kind: history.Injected, Process: "a", Number: 3, Fault: &fault},
		{Kind: history.Called, Process: "a", Number: 1, Op: &op},
		{Kind: history.Returned, Process: "a", Number: 1, Result: &result},
		{Kind: history.Looked, Process: "a", Number: 1, Belief: &history.Belief{Held: true, Until: 5, Count: 1}},
		{Kind: history.Told, Process: "a", Number: 1, Way: "Done"},
		{Kind: history.Injected, Process: "a", Number: 2, Fault: &fault},
		{Kind: history.Left, Process: "b", Leftover: "a key"},
		{Kind: history.Healed, Process: "a", Number: 2},
		{Kind: history.Healed, Process: "a", Number: 3},
		{Kind: history.Ended, Process: "a"},
		{Kind: history.Ended, Process: "b"},
	}, events)
}

func TestALastLineThatWasCutIsIgnored(t *testing.T) {
	var file bytes.Buffer
	r := history.NewRecorder(&file, "a")
	r.Leftover("a key")
	r.Leftover("a goroutine")
	events, err := history.Read(strings.NewReader(file.String()[:file.Len()-10]))
	require.NoError(t, err)
	require.Len(t, events, 1)
	require.Equal(t, "a key", events[0].Leftover)
	_, err = history.Read(strings.NewReader("{\"at\":1\n" + file.String()))
	require.ErrorContains(t, err, "line 1")
}

func TestCloseReportsAFailedWriteAfterWhichNothingIsWritten(t *testing.T) {
	w := &writer{err: errors.New("disk full")}
	r := history.NewRecorder(w, "a")
	r.Leftover("")
	w.err = nil
	r.Leftover("")
	require.ErrorContains(t, r.Close(), "disk full")
	require.Empty(t, w.lines)
	r = history.NewRecorder(w, "a")
	r.Leftover("one line is one write")
	require.NoError(t, r.Close())
	require.Len(t, w.lines, 2)
	require.Equal(t, 1, strings.Count(w.lines[0], "\n"))
}

type writer struct {
	lines []string
	err   error
}

func (w *writer) Write(p []byte) (int, error) {
	if w.err == nil {
		w.lines = append(w.lines, string(p))
	}
	return len(p), w.err
}

func TestALookHasTheTimeBeforeItAndAReturnTheTimeAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var file bytes.Buffer
		r := history.NewRecorder(&file, "a")
		begin := history.Now()
		call := r.Begin(history.Op{Method: history.Acquire})
		time.Sleep(time.Second)
		call.End(history.Result{Outcome: history.Acquired, Until: history.At(time.Now().Add(time.Hour))})
		call.Look(func() history.Belief {
			time.Sleep(time.Second)
			return history.Belief{Held: true, Until: history.At(time.Time{})}
		})
		events, err := history.Read(&file)
		require.NoError(t, err)
		require.Equal(t, begin, events[0].At)
		require.Equal(t, begin.Add(time.Second), events[1].At)
		require.Equal(t, time.Hour, events[1].Result.Until.Sub(events[1].At))
		require.Equal(t, begin.Add(time.Second), events[2].At)
		require.Equal(t, history.Belief{Held: true, Seen: begin.Add(2 * time.Second)}, *events[2].Belief)
	})
}
