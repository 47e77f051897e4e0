package history_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/history"
)

// killed names the file that a child of this test writes until it is killed.
const killed = "HISTORY_TEST_KILLED"

func TestMain(m *testing.M) {
	if path := os.Getenv(killed); path != "" {
		writeUntilKilled(path)
		return
	}
	os.Exit(m.Run())
}

// writeUntilKilled prints each event after it was recorded.
func writeUntilKilled(path string) {
	r, err := history.Create(path, "victim")
	if err != nil {
		panic(err)
	}
	go r.Pulse(context.Background())
	for {
		r.Begin(history.Op{Method: history.Lock, Name: "orders:42"})
		if _, err := os.Stdout.Write([]byte{'.'}); err != nil {
			return
		}
	}
}

// victim returns a child of this test that records events in the file at path until it is
// killed, and the child's output. The child has not started yet.
func victim(t *testing.T) (child *exec.Cmd, noted io.Reader, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "victim")
	self, err := os.Executable()
	require.NoError(t, err)
	child = exec.Command(self)
	child.Env = append(os.Environ(), killed+"="+path)
	noted, err = child.StdoutPipe()
	require.NoError(t, err)
	return child, noted, path
}

func TestEventsThatWereRecordedBeforeAKillAreRead(t *testing.T) {
	child, noted, path := victim(t)
	require.NoError(t, child.Start())
	first := make([]byte, 100)
	_, err := io.ReadFull(noted, first)
	require.NoError(t, err)
	require.NoError(t, child.Process.Kill())
	rest, err := io.ReadAll(noted)
	require.NoError(t, err)
	require.Error(t, child.Wait(), "the child must not end by itself")

	events, err := history.ReadFiles(path)
	require.NoError(t, err)
	events = slices.DeleteFunc(events, func(e history.Event) bool { return e.Kind == history.Stalled })
	require.GreaterOrEqual(t, len(events), len(first)+len(rest))
	require.EqualValues(t, len(events), events[len(events)-1].Number)
}

func TestProcessesShareOneClock(t *testing.T) {
	child, noted, path := victim(t)
	before := history.Now()
	require.NoError(t, child.Start())
	_, err := io.ReadFull(noted, make([]byte, 1))
	require.NoError(t, err)
	after := history.Now()
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())

	events, err := history.ReadFiles(path)
	require.NoError(t, err)
	require.Greater(t, events[0].At, before)
	require.Less(t, events[0].At, after)
}

func TestALastLineThatWasCutIsIgnored(t *testing.T) {
	var file bytes.Buffer
	r := history.NewRecorder(&file, "a")
	r.Leftover("a key")
	r.Leftover("a goroutine")
	cut := file.String()[:file.Len()-10]

	events, err := history.Read(strings.NewReader(cut))
	require.NoError(t, err)
	require.Len(t, events, 1)
	require.Equal(t, "a key", events[0].Leftover)

	_, err = history.Read(strings.NewReader("{\"at\":1\n" + file.String()))
	require.ErrorContains(t, err, "line 1")
}

func TestEveryEventIsReadAsItWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	r, err := history.Create(path, "a")
	require.NoError(t, err)
	op := history.Op{Worker: 3, Method: history.Acquire, Name: "orders:42", Lease: time.Second, Kept: true}
	result := history.Result{Outcome: history.Acquired, Owner: "a:1", Count: 1, Token: 7, Until: history.Now(), Watched: true}
	fault := history.Fault{What: "FLUSHALL", Forgets: true, Name: "orders:42", Victim: "b"}
	call := r.Begin(op)
	call.End(result)
	call.Look(func() history.Belief { return history.Belief{Held: true, Until: 5, Count: 1} })
	call.Told("Done")
	heal := r.Inject(fault)
	heal()
	heal()
	r.Leftover("a key")
	require.NoError(t, r.Close())

	events, err := history.ReadFiles(path)
	require.NoError(t, err)
	for i := range events {
		require.NotZero(t, events[i].At)
		events[i].At = 0
		if events[i].Belief != nil {
			require.NotZero(t, events[i].Belief.Seen)
			events[i].Belief.Seen = 0
		}
	}
	require.Equal(t, []history.Event{
		{Kind: history.Called, Process: "a", Number: 1, Op: &op},
		{Kind: history.Returned, Process: "a", Number: 1, Result: &result},
		{Kind: history.Looked, Process: "a", Number: 1, Belief: &history.Belief{Held: true, Until: 5, Count: 1}},
		{Kind: history.Told, Process: "a", Number: 1, Way: "Done"},
		{Kind: history.Injected, Process: "a", Number: 2, Fault: &fault},
		{Kind: history.Healed, Process: "a", Number: 2},
		{Kind: history.Left, Process: "a", Leftover: "a key"},
		{Kind: history.Ended, Process: "a"},
	}, events)
}

func TestAFaultThatWasFoundAfterwardsIsReadWhereItBegan(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	r, err := history.Create(path, "a")
	require.NoError(t, err)
	since := history.Now()
	r.Leftover("")
	r.Happened(history.Fault{What: "failover", Forgets: true}, since)
	require.NoError(t, r.Close())
	events, err := history.ReadFiles(path)
	require.NoError(t, err)
	var kinds []history.Kind
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	require.Equal(t, []history.Kind{history.Injected, history.Left, history.Healed, history.Ended}, kinds)
	require.Equal(t, since, events[0].At)
	require.Equal(t, events[0].Number, events[2].Number)
}

func TestAFileBelongsToOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	r, err := history.Create(path, "a")
	require.NoError(t, err)
	_, err = history.Create(path, "b")
	require.ErrorIs(t, err, os.ErrExist)
	require.NoError(t, r.Close())
}

func TestFilesAreReadInTheOrderOfTime(t *testing.T) {
	dir := t.TempDir()
	var recorders []*history.Recorder
	var paths []string
	for _, process := range []string{"a", "b"} {
		paths = append(paths, filepath.Join(dir, process))
		r, err := history.Create(filepath.Join(dir, process), process)
		require.NoError(t, err)
		recorders = append(recorders, r)
	}
	for i := range 10 {
		recorders[i%2].Leftover("")
	}
	events, err := history.ReadFiles(paths...)
	require.NoError(t, err)
	for i, e := range events {
		require.Equal(t, string("ab"[i%2]), e.Process)
	}
	for _, r := range recorders {
		require.NoError(t, r.Close())
	}
}

func TestEachLineIsOneWrite(t *testing.T) {
	w := &writer{}
	r := history.NewRecorder(w, "a")
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for range 100 {
				r.Begin(history.Op{Method: history.Lock}).End(history.Result{Outcome: history.Acquired})
			}
		})
	}
	workers.Wait()
	require.Len(t, w.writes, 1600)
	for _, line := range w.writes {
		require.Equal(t, 1, strings.Count(line, "\n"))
		require.True(t, strings.HasSuffix(line, "\n"))
	}
}

func TestCloseReportsAFailedWrite(t *testing.T) {
	w := &writer{err: errors.New("disk full")}
	r := history.NewRecorder(w, "a")
	r.Leftover("")
	w.err = nil
	r.Leftover("")
	require.ErrorContains(t, r.Close(), "disk full")
	require.Empty(t, w.writes)
}

type writer struct {
	writes []string
	err    error
}

func (w *writer) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	w.writes = append(w.writes, string(p))
	return len(p), nil
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
			return history.Sight(validUntil(time.Now().Add(time.Hour)))()
		})
		call.Look(history.Sight(validUntil{}))

		events, err := history.Read(&file)
		require.NoError(t, err)
		require.Equal(t, begin, events[0].At)
		require.Equal(t, begin.Add(time.Second), events[1].At)
		require.Equal(t, time.Hour, events[1].Result.Until.Sub(events[1].At))
		require.Equal(t, begin.Add(time.Second), events[2].At)
		require.Equal(t, history.Belief{Held: true, Until: begin.Add(2*time.Second + time.Hour), Seen: begin.Add(2 * time.Second)}, *events[2].Belief)
		require.Equal(t, begin.Add(2*time.Second), events[3].At)
		require.Equal(t, history.Belief{Seen: begin.Add(2 * time.Second)}, *events[3].Belief)
	})
}

type validUntil time.Time

func (v validUntil) ValidUntil() time.Time { return time.Time(v) }

func TestThereIsNoTimeAtTheZeroTime(t *testing.T) {
	require.Zero(t, history.At(time.Time{}))
}
