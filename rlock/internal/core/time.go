package core

import "math"

// A Span is a length of time, in the unit of the caller's clocks: nanoseconds in a client, ticks in the explorer.
type Span int64

// A Time is a point on the monotonic clock. Looks, waits and retries are timed by it.
type Time int64

// A SafeTime is a point on the clock that never runs behind Redis: it advances by the larger of what the monotonic and
// the wall clock advance. How long a lease is believed is counted by it, and nothing else. It is a type of its own so
// that a lease is never compared with the other clock, which stands still while a machine is suspended.
type SafeTime int64

// A Now is one moment on both clocks.
type Now struct {
	Time Time
	Safe SafeTime
}

// Never is later than any time that there is, and Forever is longer than any wait.
const (
	Never     Time     = math.MaxInt64
	NeverSafe SafeTime = math.MaxInt64
	Forever   Span     = math.MaxInt64
)

// After returns the time a span after t, Never for Forever.
func (t Time) After(d Span) Time {
	if d == Forever || t == Never {
		return Never
	}
	return t + Time(d)
}

// Since returns the span from u to t.
func (t Time) Since(u Time) Span { return Span(t - u) }

// After returns the time a span after t, NeverSafe for Forever.
func (t SafeTime) After(d Span) SafeTime {
	if d == Forever || t == NeverSafe {
		return NeverSafe
	}
	return t + SafeTime(d)
}

// Since returns the span from u to t.
func (t SafeTime) Since(u SafeTime) Span { return Span(t - u) }

// At returns when the monotonic clock will show at least that much if both clocks run alike, which is when to look
// whether t has come.
func (n Now) At(t SafeTime) Time {
	if t == NeverSafe {
		return Never
	}
	return n.Time + Time(t-n.Safe)
}
