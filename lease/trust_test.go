package lease_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/lease"
)

const (
	ttl   = 10 * time.Second
	drift = 100 * time.Millisecond
)

// wallAhead returns t with its wall clock set ahead, but not its monotonic clock: a time that
// is read after the machine slept for d. No API makes such a time; this relies on the layout
// of time.Time, which keeps the seconds of the wall clock above 30 bits of nanoseconds, and
// fails the test if the layout differs.
func wallAhead(t *testing.T, at time.Time, d time.Duration) time.Time {
	t.Helper()
	shifted := at
	const mask = 1<<30 - 1
	wall := (*uint64)(unsafe.Pointer(&shifted))
	nanoseconds := int64(*wall&mask) + int64(d)
	seconds := (nanoseconds - mod(nanoseconds, int64(time.Second))) / int64(time.Second)
	*wall = *wall&^mask + uint64(seconds)<<30 + uint64(mod(nanoseconds, int64(time.Second)))
	require.Zero(t, shifted.Sub(at), "the monotonic clock must stand still")
	require.Equal(t, d, shifted.Round(0).Sub(at.Round(0)), "the wall clock must advance")
	return shifted
}

// mod is the remainder of a division that rounds down.
func mod(a, b int64) int64 { return (a%b + b) % b }

func confirmed(now time.Time, ttl time.Duration) lease.Trust {
	var trust lease.Trust
	trust.Sent(now, ttl, drift)
	trust.Confirmed()
	return trust
}

func TestDriftIsAHundredthTwoMillisecondsAndATick(t *testing.T) {
	assert.Equal(t, 312*time.Millisecond, lease.Drift(30*time.Second, 10*time.Millisecond))
	assert.Equal(t, 2*time.Millisecond, lease.Drift(0, 0))
}

func TestTheZeroTrustIsNeverValid(t *testing.T) {
	var trust lease.Trust
	assert.False(t, trust.Valid(time.Now()))
	assert.False(t, trust.Valid(time.Time{}))
	assert.True(t, trust.Until().IsZero())

	trust.Confirmed()
	assert.False(t, trust.Valid(time.Now()), "no command was sent that could be confirmed")
}

func TestTrustCountsFromBeforeTheSend(t *testing.T) {
	now := time.Now()
	trust := confirmed(now, ttl) // whenever the answer came
	end := now.Add(ttl - drift)
	assert.True(t, trust.Valid(end.Add(-1)))
	assert.False(t, trust.Valid(end))
	assert.True(t, trust.Until().Equal(end))
}

func TestTrustKnowsWhenTheLastCommandWasSent(t *testing.T) {
	var trust lease.Trust
	assert.Zero(t, trust.SentAt())
	now := time.Now()
	trust.Sent(now, ttl, drift)
	trust.Confirmed()
	trust.Sent(now.Add(time.Second), ttl, drift)
	assert.Equal(t, now.Add(time.Second), trust.SentAt(), "the last command, confirmed or not")
}

func TestACommandInFlightLengthensNothing(t *testing.T) {
	now := time.Now()
	var trust lease.Trust
	trust.Sent(now, ttl, drift)
	assert.False(t, trust.Valid(now), "no outcome is known")

	trust = confirmed(now, ttl)
	trust.Sent(now.Add(ttl/3), ttl, drift)
	assert.False(t, trust.Valid(now.Add(ttl)), "the renewal may be lost")
	trust.Confirmed()
	assert.True(t, trust.Valid(now.Add(ttl)))
}

func TestACommandInFlightShortensAtOnce(t *testing.T) {
	now := time.Now()
	trust := confirmed(now, ttl)
	trust.Sent(now.Add(time.Second), 2*time.Second, drift)
	assert.True(t, trust.Until().Equal(now.Add(3*time.Second-drift)), "the shortening may be executed")

	// The shortening got no answer, and the next command has none yet either.
	trust.Sent(now.Add(2*time.Second), ttl, drift)
	assert.False(t, trust.Valid(now.Add(3*time.Second)))
	trust.Confirmed()
	assert.True(t, trust.Valid(now.Add(3*time.Second)))
}

func TestACommandInFlightRevivesNothing(t *testing.T) {
	now := time.Now()
	trust := confirmed(now, ttl)
	trust.Sent(now.Add(ttl), time.Second, drift)
	assert.False(t, trust.Valid(now.Add(ttl)))

	trust = confirmed(now, ttl)
	woken := wallAhead(t, now.Add(time.Second), time.Hour)
	trust.Sent(woken, time.Second, drift)
	assert.False(t, trust.Valid(woken), "the lease was over when the machine woke, shortened or not")
}

func TestAnAnswerAfterTheEndIsNoTrust(t *testing.T) {
	now := time.Now()
	trust := confirmed(now, ttl)
	assert.False(t, trust.Valid(now.Add(2*ttl)))
}

func TestALeaseShorterThanItsDriftIsNeverValid(t *testing.T) {
	now := time.Now()
	trust := confirmed(now, drift)
	assert.False(t, trust.Valid(now))
	trust = confirmed(now, drift/2)
	assert.False(t, trust.Valid(now))
}

func TestALeaseIsOverWhenTheMachineSlept(t *testing.T) {
	now := time.Now()
	trust := confirmed(now, ttl)
	later := now.Add(time.Second)
	require.True(t, trust.Valid(later))
	assert.True(t, trust.Valid(wallAhead(t, later, 8*time.Second)))
	assert.False(t, trust.Valid(wallAhead(t, later, 9*time.Second)))
}

func TestAWallClockSetBackLengthensNothing(t *testing.T) {
	now := time.Now()
	trust := confirmed(now, ttl)
	assert.True(t, trust.Valid(wallAhead(t, now.Add(ttl/2), -time.Hour)))
	assert.False(t, trust.Valid(wallAhead(t, now.Add(ttl), -time.Hour)))
}

func TestWithoutAMonotonicReadingTheWallClockDecides(t *testing.T) {
	now := time.Now()
	trust := confirmed(now, ttl)
	assert.True(t, trust.Valid(now.Round(0).Add(ttl/2)))
	assert.False(t, trust.Valid(now.Round(0).Add(ttl)))
}
