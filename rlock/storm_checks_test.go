package rlock_test

import (
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A criticalSection is the time in which one owner had the lock: exclusively, and then shared.
type criticalSection struct{ exclusive, shared span }

func (s criticalSection) from() time.Time {
	if s.exclusive.from.IsZero() {
		return s.shared.from
	}
	return s.exclusive.from
}

func (s criticalSection) to() time.Time {
	if s.shared.to.IsZero() {
		return s.exclusive.to
	}
	return s.shared.to
}

// cap ends the span at that time, unless it ends earlier.
func (s *span) cap(at time.Time) {
	if at.Before(s.to) {
		s.to = at
	}
}

func (s *storm) since(of span) [2]time.Duration {
	return [2]time.Duration{of.from.Sub(s.begin), of.to.Sub(s.begin)}
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
			assert.LessOrEqual(s.t, section.to().Sub(at), longestLease, "the holder was not notified")
		}
	}
}

func (s *storm) noSectionOverlapsAWriter(sections []criticalSection) {
	var exclusive, all []span
	for _, section := range sections {
		from := section.from()
		if s.wasDisturbed(from.Add(-longestLease), from) {
			continue // its tenure may have been lost before it began
		}
		if at := firstOf(s.disturbed, from, section.to()); !at.IsZero() {
			section.exclusive.cap(at)
			section.shared.cap(at)
		}
		all = append(all, section.exclusive, section.shared)
		exclusive = append(exclusive, section.exclusive)
	}
	for _, a := range exclusive {
		for _, b := range all {
			if a != b {
				require.False(s.t, a.from.Before(b.to) && b.from.Before(a.to), "%v and %v overlap", s.since(a), s.since(b))
			}
		}
	}
}

func (s *storm) noCallerWaitsForAFreeLock() {
	var busy []span
	for _, section := range s.sections {
		busy = append(busy, span{section.from(), section.to()})
	}
	slices.SortFunc(busy, func(a, b span) int { return a.from.Compare(b.from) })
	var longest time.Duration
	for _, wait := range s.waits {
		free := wait.from // the lock is free since then
		for _, b := range busy {
			if b.from.After(wait.to) {
				break
			}
			if b.to.Before(free) {
				continue
			}
			longest = max(longest, b.from.Sub(free))
			free = b.to
		}
		longest = max(longest, wait.to.Sub(free))
		assert.Less(s.t, longest, idle, "the lock was free while a caller waited: %v", s.since(wait))
	}
	s.t.Logf("%d sections, %d waits, the lock was free for %v at most", len(s.sections), len(s.waits), longest)
}

func (s *storm) nothingIsLeft() {
	time.Sleep(50 * time.Millisecond)
	if s.kind.lingers {
		time.Sleep(longestLinger) // no client called the last holder, so the lock lingers
	}
	assert.Empty(s.t, slices.DeleteFunc(s.Keys(), isCounter))
	time.Sleep(time.Minute) // until the connection for subscriptions is renewed
	assert.Empty(s.t, lockChannels(s.Miniredis))
	for _, r := range s.clients {
		assert.NoError(s.t, r.client.Close())
	}
}
