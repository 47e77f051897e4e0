package rlock_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/driver"
	"github.com/stretchr/testify/assert"
)

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", atOnce); err != nil { // before the command line is parsed
		panic(err)
	}
	flag.Parse()
	driver.CheckRules(flag.Lookup("test.bench").Value.String() == "") // with -tags invariants; they cost more than an uncontended pair
	debug.SetGCPercent(400)                                           // much of the work in virtual time is garbage of miniredis and of its scripts
	redistest.Main(m, aFailedHandshake)
}

// long selects the long form of tests, which measures more.
var long = flag.Bool("long", false, "run the tests that have a longer form in that form")

// atOnce is the number of parallel tests, unless the flag is given: more than there may be
// processors, since tests mostly wait for a server to start, a failure to be noticed or a
// lease to end.
const atOnce = "6"

// The suite is every test that begins with everywhere: it tests the lock on the embedded
// server, a single Redis, one behind Sentinel, and a Cluster.

// hang is the time after which a wait is taken for endless. It measures nothing.
const hang = 2 * time.Minute

// key is the name of the lock in tests that need only one, channel its channel.
const (
	key     = "orders:42"
	channel = "redisson_lock__channel:{orders:42}"
)

// quiet discards the log.
var quiet = slog.New(slog.DiscardHandler)

// A journal is a log that may be written and read concurrently.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

// count returns how many lines contain the text.
func (j *journal) count(text string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.text.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// background runs f in a goroutine of its own and returns the channel of its result.
func background(f func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- f() }()
	return result
}

// start runs a call in a goroutine of its own and returns the channel of its result.
func start(call func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- call() }()
	return result
}

// pending reports whether a call has no result once every goroutine of the bubble waits.
func pending(result <-chan error) bool {
	synctest.Wait()
	return len(result) == 0
}

// within asserts how long a call took in virtual time.
func within(t *testing.T, atLeast, atMost time.Duration, call func()) {
	t.Helper()
	begin := time.Now()
	call()
	assert.GreaterOrEqual(t, time.Since(begin), atLeast)
	assert.LessOrEqual(t, time.Since(begin), atMost)
}

// An owner in several goroutines nests with itself, even while it waits: a grant to one of
// them admits the others, wherever they are in the queue.

// soon returns the result of a call, or an error when ten virtual seconds have passed.
func soon(result <-chan error) error {
	select {
	case err := <-result:
		return err
	case <-time.After(10 * time.Second):
		return errors.New("it waits")
	}
}

// elsewhere runs f in a goroutine of its own, which is another owner than the test's, and
// returns when f has returned.
func elsewhere(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// queueing returns a context like ctx, and a channel that is closed when a Lock with this
// context begins to wait: by then it is in its client's queue.
func queueing(ctx context.Context) (context.Context, <-chan struct{}) {
	q := &queueingContext{Context: ctx, queued: make(chan struct{})}
	return q, q.queued
}

type queueingContext struct {
	context.Context
	once   sync.Once
	queued chan struct{}
}

func (q *queueingContext) Done() <-chan struct{} {
	q.once.Do(func() { close(q.queued) })
	return q.Context.Done()
}

func nothing(context.Context) error { return nil }

// sum adds the counts.
func sum(counts []int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// Load, in virtual time. Each test repeats its load: the first round may leave memory and
// goroutines behind, and later rounds must add none. The full load, 10 000 locks and an hour,
// takes minutes:
//
//	go test -v -timeout 30m -run 'TenThousand|ManyLocks|MixedLoad' ./rlock -long

// thorough returns whole with -long, otherwise usual.
func thorough[N any](whole, usual N) N {
	if *long {
		return whole
	}
	return usual
}

// fewer reports whether tests do less: under the race detector, which makes the embedded server
// several times slower, unless -everything is given.
func fewer() bool { return redistest.UnderRace && !*everything && !*long }

var everything = flag.Bool("everything", false, "run all tests under the race detector, too")

// manyCommands skips a test that sends thousands of commands, or lasts an hour of virtual
// time, under the race detector.
func manyCommands(t *testing.T) {
	t.Helper()
	if fewer() {
		t.Skip("with the race detector: only with -everything")
	}
}
