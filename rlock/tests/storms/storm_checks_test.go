package storms_test

import (
	"slices"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A criticalSection is the time in which one owner had the lock: exclusively, and then shared.
type criticalSection struct{ exclusive, shared testbed.Span }

func (s criticalSection) from() time.Time {
	if s.exclusive.From.IsZero() {
		return s.shared.From
	}
	return s.exclusive.From
}

func (s criticalSection) to() time.Time {
	if s.shared.To.IsZero() {
		return s.exclusive.To
	}
	return s.shared.To
}

func (s *storm) since(of testbed.Span) [2]time.Duration {
	return [2]time.Duration{of.From.Sub(s.begin), of.To.Sub(s.begin)}
}

// wasDisturbed reports whether keys were deleted between from and to.
func (s *storm) wasDisturbed(from, to time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !firstOf(s.disturbed, from, to).IsZero()
}

// firstOf returns the first of the times between from and to, zero if there is none.
func firstOf(times []time.Time, from, to time.Time) time.Time {
	for _, at := range times {
		if !at.Before(from) && !at.After(to) {
			return at
		}
	}
	return time.Time{}
}

func (s *storm) holdersWereNotified() {
	for _, section := range s.sections {
		from := section.from()
		if s.wasDisturbed(from.Add(-longestLease), from) {
			continue // its tenure may have been lost before it began
		}
		if at := firstOf(s.taken, from, section.to()); !at.IsZero() {
			assert.LessOrEqual(s.T, section.to().Sub(at), longestLease, "the holder was not notified")
		}
	}
}

func (s *storm) noSectionOverlapsAWriter() {
	var exclusive, all []testbed.Span
	for _, section := range s.sections {
		from := section.from()
		if s.wasDisturbed(from.Add(-longestLease), from) {
			continue // its tenure may have been lost before it began
		}
		if at := firstOf(s.disturbed, from, section.to()); !at.IsZero() {
			section.exclusive.Cap(at)
			section.shared.Cap(at)
		}
		all = append(all, section.exclusive, section.shared)
		exclusive = append(exclusive, section.exclusive)
	}
	for _, a := range exclusive {
		for _, b := range all {
			if a != b {
				require.False(s.T, a.From.Before(b.To) && b.From.Before(a.To), "%v and %v overlap", s.since(a), s.since(b))
			}
		}
	}
}

func (s *storm) noCallerWaitsForAFreeLock() {
	var busy []testbed.Span
	for _, section := range s.sections {
		busy = append(busy, testbed.Span{From: section.from(), To: section.to()})
	}
	slices.SortFunc(busy, func(a, b testbed.Span) int { return a.From.Compare(b.From) })
	var longest time.Duration
	for _, wait := range s.waits {
		free := wait.From // the lock is free since then
		for _, b := range busy {
			if b.From.After(wait.To) {
				break
			}
			if b.To.Before(free) {
				continue
			}
			longest = max(longest, b.From.Sub(free))
			free = b.To
		}
		longest = max(longest, wait.To.Sub(free))
		assert.Less(s.T, longest, idle, "the lock was free while a caller waited: %v", s.since(wait))
	}
	s.T.Logf("%d sections, %d waits, the lock was free for %v at most", len(s.sections), len(s.waits), longest)
}

func (s *storm) nothingIsLeft() {
	time.Sleep(50 * time.Millisecond)
	assert.Empty(s.T, slices.DeleteFunc(s.Keys(), testbed.IsCounter))
	time.Sleep(time.Minute) // until the connection for subscriptions is renewed
	assert.Empty(s.T, testbed.LockChannels(s.Miniredis))
	for _, r := range s.clients {
		assert.NoError(s.T, r.client.Close())
	}
}
