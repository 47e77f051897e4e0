package report_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-rlock/rlock/internal/torture/report"
)

func TestALoadIsViolatedByEachThingThatMustNotBe(t *testing.T) {
	good := report.Load{What: "a crowd", Took: time.Second, Wanted: 5, Served: 5, Sights: []report.Sight{{10, 1 << 20}, {500, 1 << 30}, {11, 2 << 20}}}
	assert.Empty(t, good.Violations())
	for name, change := range map[string]func(*report.Load){
		"4 of 5 were served": func(l *report.Load) { l.Served = 4 },
		"1 were lost":        func(l *report.Load) { l.Lost = 1 },
		"100 in the end":     func(l *report.Load) { l.Sights[2].Goroutines = 100 },
		"KiB of heap":        func(l *report.Load) { l.Sights[2].Heap = 1 << 30 },
	} {
		bad := good
		bad.Sights = append([]report.Sight(nil), good.Sights...)
		change(&bad)
		if assert.Len(t, bad.Violations(), 1, name) {
			assert.Contains(t, bad.Violations()[0], name)
			assert.Contains(t, report.LoadMarkdown([]*report.Load{&good, &bad}), "- violated: a crowd: ")
		}
	}
	tries := good
	tries.Served, tries.Tries = 2, true
	assert.Empty(t, tries.Violations())
	assert.Contains(t, report.LoadMarkdown([]*report.Load{&good}), "| a crowd | 5 | 1s | 0 | 10, 500, 11 | 1.0, 1024.0, 2.0 |")
}

func TestALookSeesThisProcess(t *testing.T) {
	var l report.Load
	l.Look()
	assert.Positive(t, l.Sights[0].Goroutines)
	assert.Positive(t, l.Sights[0].Heap)
}
