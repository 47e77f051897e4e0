package redistest

import "testing"

// Slow skips a test with -short. One in ten tests takes three quarters of the time of all; with -short
// the others remain, which take half a minute.
func Slow(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("redistest: a slow test: without -short")
	}
}

// Rounds returns how many rounds a test has that is slow by their number: n, fewer under the race detector, and still fewer
// with -short. The same rounds show the same in each.
func Rounds(n int) int {
	if UnderRace {
		n /= 6
	}
	if testing.Short() {
		n /= 20
	}
	return max(n, 1)
}

// isWanted reports whether a test may use a real server. With -short the tests are the same on each
// machine. A program that starts servers has no such flag.
func isWanted() bool { return isDemanded() || !testing.Testing() || !testing.Short() }
