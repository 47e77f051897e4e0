package checker_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/checker"
	"github.com/go-rlock/rlock/internal/history"
)

// crowd is a history in which the given number of owners wait for the lock all the time.
// Every tenth loses it.
func crowd(owners, sections int) *story {
	s := &story{}
	r := rand.New(rand.NewPCG(1, 2))
	since := make([]int, owners) // when each began to wait
	ms := 1
	for i := range sections {
		who := r.IntN(owners)
		owner := fmt.Sprint("o", who)
		ms = max(ms, since[who])
		called, begin := since[who], ms
		if i%10 == 9 {
			s.fixed(owner, called, begin, begin+990, token(uint64(i+1)))
			ms += 1000
			s.gives(owner, ms+10, ms+11, history.Lost)
			since[who] = ms + 12
			continue
		}
		s.byName(owner, called, begin, 1)
		s.gives(owner, begin+2, begin+9, history.Released)
		since[who] = begin + 10
		ms += 4
	}
	return s
}

func TestACrowdIsDecidedPartByPart(t *testing.T) {
	s := crowd(200, 5000)
	report := s.check(t)
	require.Empty(t, report.Violations)
	require.Greater(t, report.Parts, 20)

	// The same with one section too many, in the middle.
	s.byName("thief", 100_000, 200_000, 1)
	s.gives("thief", 300_000, 300_001, history.Released)
	report = s.check(t)
	require.NotZero(t, report.Broken(checker.Overlap))
	require.NotZero(t, report.Broken(checker.Order))
}

// A part begins with the last step of the one before. If that is an unlock, it does not tell
// the token of the hold that goes on.
func TestAPartMayBeginInsideAHoldWithAToken(t *testing.T) {
	s := &story{}
	s.byName("a", 0, 1, 1, token(7))
	for ms := 10; ms < 4000; ms += 10 {
		s.byName("a", ms, ms+1, 2, token(7))
		s.gives("a", ms+2, ms+3, history.Released)
	}
	s.gives("a", 5000, 5001, history.Released)
	report := s.check(t)
	require.Greater(t, report.Parts, 2)
	require.Empty(t, report.Violations)
}

func BenchmarkCheck(b *testing.B) {
	s := crowd(100, 20_000)
	events := s.sorted()
	for b.Loop() {
		report, err := checker.Check(events, checker.Options{})
		require.NoError(b, err)
		require.Empty(b, report.Violations)
		require.Zero(b, report.Undecided)
	}
	b.ReportMetric(float64(len(events))*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
