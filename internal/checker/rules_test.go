package checker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEachStoryBreaksExactlyItsRules(t *testing.T) {
	for _, told := range stories(t) {
		t.Run(told.title, func(t *testing.T) {
			report := told.check()
			require.Equal(t, told.broken, rules(report.Violations), "%v", report)
			require.Equal(t, told.excused, rules(report.Excused), "%v", report)
		})
	}
}

func TestAnOverlapHasItsLength(t *testing.T) {
	s := newStory("0-1 a acquires until=990 watched", "100-101 DEL", "0-110 b acquires until=1100", "300 a told")
	excused := s.check().Excused
	require.Len(t, excused, 1)
	require.Equal(t, 190*time.Millisecond, excused[0].Both)
	require.Equal(t, "DEL", excused[0].Excuse)
}

func TestAReportHasTheFiguresAndTheEvents(t *testing.T) {
	report := newStory("0-1 a acquires until=990", "50-60 b acquires until=1050", "0-70 c locks cancelled", "71- c locks", "80-81 cut",
		"100-101 a unlocks released").check()
	require.Equal(t, 4, report.Calls)
	require.Equal(t, 2, report.Acquired)
	require.Equal(t, 10*time.Millisecond, report.LongestWait)
	text := report.String()
	require.Contains(t, text, `overlap of "orders:42": a believes for 40ms that it has the lock, after b got it`)
	require.Contains(t, text, `"until":990000000`)
}
