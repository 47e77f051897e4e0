package redistest

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// Hang is the time after which a wait is taken for endless. It measures nothing. RLOCK_HANG is another one, for a machine that
// is busy with more than the tests.
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

// Guard ends the process, and shows all goroutines, if the test has not ended after three times Hang. Virtual
// time flies as long as there is a ticker, so that no bubble with one is found deadlocked: there it is called outside of the
// bubble.
func Guard(t testing.TB) {
	guard := time.AfterFunc(3*Hang, func() {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		panic(fmt.Sprintf("redistest: %s hangs\n\n%s", t.Name(), stacks))
	})
	t.Cleanup(func() { guard.Stop() })
}

// UnderRace tells whether the tests run under the race detector, which makes them many times slower.
var UnderRace bool

// Slow skips a test with -short. One in ten tests takes three quarters of the time of all; with -short
// the others remain, which take half a minute.
func Slow(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("redistest: a slow test: without -short")
	}
}
