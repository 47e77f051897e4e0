package redistest

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// Hang is the time after which a wait is taken for endless. It measures nothing. RLOCK_HANG is
// another one, for a machine that is busy with more than the tests.
var Hang = hang(os.Getenv("RLOCK_HANG"))

func hang(text string) time.Duration {
	if text == "" {
		return 20 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic("RLOCK_HANG: " + err.Error())
	}
	return d
}

// Await receives a value from a channel, the zero value if the channel is closed. It fails the test
// when Hang has passed. It is for tests in real time: [Virtual] ends a test in virtual time.
func Await[V any](t testing.TB, from <-chan V) (v V) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(Hang):
		t.Fatalf("redistest: nothing has come for %v", Hang)
	}
	return v
}

// Guard ends the process, and shows all goroutines, if the test has not ended after three times
// Hang.
func Guard(t testing.TB) { t.Cleanup(guard(t, 3*Hang)) }

func guard(t testing.TB, limit time.Duration) (stop func()) {
	end := time.AfterFunc(limit, func() {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		panic(fmt.Sprintf("redistest: %s hangs: %v have passed\n\n%s", t.Name(), limit, stacks))
	})
	return func() { end.Stop() }
}

// Virtual runs a test in virtual time, in a testing/synctest bubble. Everything that the test
// starts must have ended when it returns. A test that hangs ends the process, and shows all
// goroutines, after ninety virtual minutes, which pass in a second or two: synctest finds no
// deadlock as long as there is a ticker. One that lets no time pass is ended as by [Guard].
func Virtual(t *testing.T, run func(t *testing.T)) {
	t.Helper()
	defer guard(t, 3*Hang)()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(guard(t, 90*time.Minute))
		run(t)
	})
}

// UnderRace tells whether the tests run under the race detector, which makes them many times
// slower.
var UnderRace bool

// Slow skips a test with -short. One in ten tests takes three quarters of the time of all; with
// -short the others remain, which take half a minute.
func Slow(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("redistest: a slow test: without -short")
	}
}
