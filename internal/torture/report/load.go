package report

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// A Load is the result of much load without a fault.
type Load struct {
	What           string
	Took           time.Duration
	Wanted, Served int64 // locks; a caller that only tries is not always served
	Tries          bool  // some only try
	Lost           int64 // and waiters that hung
	Sights         []Sight
}

// A Sight is a measurement at one moment: of a crowd, before it came, while it waited and
// after it had gone; of the mixed load, at rest now and then.
type Sight struct {
	Goroutines int
	Heap       uint64 // bytes
}

// Look adds a Sight of this process.
func (l *Load) Look() {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	l.Sights = append(l.Sights, Sight{runtime.NumGoroutine(), m.HeapAlloc})
}

// Growth that is not a leak: goroutines of connections and of the runtime, memory that pools
// and maps keep.
const (
	spareGoroutines = 20
	spareHeap       = 16 << 20
)

// Violations returns the broken expectations.
func (l *Load) Violations() (list []string) {
	violate := func(format string, args ...any) {
		list = append(list, l.What+": "+fmt.Sprintf(format, args...))
	}
	if !l.Tries && l.Served != l.Wanted {
		violate("%d of %d were served", l.Served, l.Wanted)
	}
	if l.Lost > 0 {
		violate("%d were lost", l.Lost)
	}
	first, last := l.Sights[0], l.Sights[len(l.Sights)-1]
	if last.Goroutines > first.Goroutines+spareGoroutines {
		violate("%d goroutines at first, %d in the end", first.Goroutines, last.Goroutines)
	}
	if last.Heap > first.Heap+first.Heap/2+spareHeap {
		violate("%d KiB of heap at first, %d in the end", first.Heap>>10, last.Heap>>10)
	}
	return list
}

// Outcome returns the Load as one line.
func (l *Load) Outcome() string {
	var sights []string
	for _, s := range l.Sights {
		sights = append(sights, fmt.Sprintf("%d/%d", s.Goroutines, s.Heap>>10))
	}
	return fmt.Sprintf("%d served in %s, %d lost; goroutines/KiB of heap: %s", l.Served, short(l.Took), l.Lost, strings.Join(sights, ", "))
}

// LoadMarkdown returns the loads as Markdown.
func LoadMarkdown(loads []*Load) string {
	var b strings.Builder
	b.WriteString("# Load\n\n| | served | in | lost | goroutines, first to last | heap in MiB, first to last |\n|---|---|---|---|---|---|\n")
	for _, l := range loads {
		var goroutines, heap []string
		for _, s := range l.Sights {
			goroutines = append(goroutines, fmt.Sprint(s.Goroutines))
			heap = append(heap, fmt.Sprintf("%.1f", float64(s.Heap)/(1<<20)))
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %d | %s | %s |\n", l.What, l.Served, short(l.Took), l.Lost, strings.Join(goroutines, ", "), strings.Join(heap, ", "))
	}
	b.WriteByte('\n')
	for _, l := range loads {
		for _, v := range l.Violations() {
			fmt.Fprintf(&b, "- violated: %s\n", v)
		}
	}
	return b.String()
}
