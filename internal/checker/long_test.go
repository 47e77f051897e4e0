package checker_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/checker"
)

// crowd is a history in which the given number of owners wait for the lock all the time.
// Every tenth loses it.
func crowd(owners, sections int) *story {
	s := newStory()
	r := rand.New(rand.NewPCG(1, 2))
	since := make([]int, owners) // when each began to wait
	ms := 1
	for i := range sections {
		who := r.IntN(owners)
		owner := fmt.Sprint("o", who)
		ms = max(ms, since[who])
		called, begin := since[who], ms
		if i%10 == 9 {
			s.tell(fmt.Sprintf("%d-%d %s acquires until=%d token=%d fixed", called, begin, owner, begin+990, i+1))
			ms += 1000
			s.tell(fmt.Sprintf("%d-%d %s unlocks lost", ms+10, ms+11, owner))
			since[who] = ms + 12
			continue
		}
		s.tell(fmt.Sprintf("%d-%d %s locks count=1", called, begin, owner), fmt.Sprintf("%d-%d %s unlocks released", begin+2, begin+9, owner))
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
	s.tell("100000-200000 thief locks count=1", "300000-300001 thief unlocks released")
	report = s.check(t)
	require.NotZero(t, report.Broken(checker.Overlap))
	require.NotZero(t, report.Broken(checker.Order))
}

// A part begins with the last step of the one before. If that is an unlock, it does not tell
// the token of the hold that goes on.
func TestAPartMayBeginInsideAHoldWithAToken(t *testing.T) {
	s := newStory("0-1 a locks count=1 token=7")
	for ms := 10; ms < 4000; ms += 10 {
		s.tell(fmt.Sprintf("%d-%d a locks count=2 token=7", ms, ms+1), fmt.Sprintf("%d-%d a unlocks released", ms+2, ms+3))
	}
	s.tell("5000-5001 a unlocks released")
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
