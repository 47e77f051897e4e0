package testbed

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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/driver"
)

// WithPrefix sets Config.Prefix.
func WithPrefix(prefix string) func(*rlock.Config) {
	return func(c *rlock.Config) { c.Prefix = prefix }
}

// Main is the TestMain of each package of tests. It adds the flags of this package, and fails if a goroutine is left.
func Main(m *testing.M) {
	if err := flag.Set("test.parallel", atOnce); err != nil { // before the command line is parsed
		panic(err)
	}
	flag.Parse()
	driver.CheckRules(flag.Lookup("test.bench").Value.String() == "") // with -tags invariants; they cost more than an uncontended pair
	debug.SetGCPercent(400)                                           // much of the work in virtual time is garbage of miniredis and of its scripts
	redistest.Main(m, AFailedHandshake)
}

// Long selects the long form of tests, which measures more.
var Long = flag.Bool("long", false, "run the tests that have a longer form in that form")

// atOnce is the number of parallel tests, unless the flag is given: more than there may be
// processors, since tests mostly wait for a server to start, a failure to be noticed or a
// lease to end.
const atOnce = "6"

// The suite is every test that begins with everywhere: it tests the lock on the embedded
// server, a single Redis, one behind Sentinel, and a Cluster.

// Hang is when a wait is taken for endless.
var Hang = redistest.Hang

// Key is the name of the lock in tests that need only one, channel its channel.
const (
	Key     = "orders:42"
	Channel = "redisson_lock__channel:{orders:42}"
)

// Quiet discards the log.
var Quiet = slog.New(slog.DiscardHandler)

// A Journal is a log that may be written and read concurrently.
type Journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *Journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

// Count returns how many lines contain the text.
func (j *Journal) Count(text string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.text.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// Start runs a call in a goroutine of its own and returns the channel of its result.
func Start(call func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- call() }()
	return result
}

// Pending reports whether a call has no result once every goroutine of the bubble waits.
func Pending(result <-chan error) bool {
	synctest.Wait()
	return len(result) == 0
}

// Waits starts a call that has to wait.
func Waits(t *testing.T, call func() error) <-chan error {
	t.Helper()
	result := Start(call)
	require.True(t, Pending(result))
	return result
}

// Within asserts how long a call took in virtual time.
func Within(t *testing.T, atLeast, atMost time.Duration, call func()) {
	t.Helper()
	begin := time.Now()
	call()
	assert.GreaterOrEqual(t, time.Since(begin), atLeast)
	assert.LessOrEqual(t, time.Since(begin), atMost)
}

// Soon returns the result of a call, or an error when ten virtual seconds have passed.
func Soon(result <-chan error) error {
	select {
	case err := <-result:
		return err
	case <-time.After(10 * time.Second):
		return errors.New("it waits")
	}
}

// Elsewhere runs f in a goroutine of its own, which is another owner than the test's, and
// returns when f has returned.
func Elsewhere(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// Queueing returns a context like ctx, and a channel that is closed when a Lock or an Acquire with
// this context begins to wait: by then it is in its client's queue. It is not for Do, which derives
// the context of its function, and so asks for Done, before it waits.
func Queueing(ctx context.Context) (context.Context, <-chan struct{}) {
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

func Nothing(context.Context) error { return nil }

// Thorough returns whole with -long, otherwise usual.
func Thorough[N any](whole, usual N) N {
	if *Long {
		return whole
	}
	return usual
}

// Fewer reports whether tests do less: under the race detector, which makes the embedded server
// several times slower, unless -everything is given.
func Fewer() bool { return redistest.UnderRace && !*everything && !*Long }

var everything = flag.Bool("everything", false, "run all tests under the race detector, too")

// ManyCommands skips a test that sends thousands of commands, or lasts an hour of virtual
// time, under the race detector.
func ManyCommands(t *testing.T) {
	t.Helper()
	if Fewer() {
		t.Skip("with the race detector: only with -everything")
	}
}
