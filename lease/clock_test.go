package lease_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
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

// A span is a time that is counted by the clock that has run further, as a holder counts its
// lease: the monotonic clock stands still while the machine sleeps. The zero span is over.
type span struct {
	from  time.Time
	lasts time.Duration
}

func (s span) goesOn(now time.Time) bool {
	return s.lasts > max(now.Sub(s.from), now.Round(0).Sub(s.from.Round(0)))
}

func (s span) end() time.Time { return s.from.Add(s.lasts) }
