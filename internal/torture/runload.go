package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-rlock/rlock/internal/torture/load"
	"github.com/go-rlock/rlock/internal/torture/report"
	"github.com/go-rlock/rlock/internal/torture/stage"
)

// full is the load of -load, without its duration.
var full = load.Size{Waiters: 10_000, Locks: 10_000, Processes: 50, Workers: 4}

// runLoad puts load on a server, and returns the number of violations.
func runLoad(o options) (violations int, err error) {
	if err := o.makeOut(); err != nil {
		return 0, err
	}
	began := time.Now()
	s, err := stage.Open(stage.Standalone, o.out)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	size := full
	size.Mixed = o.duration
	loads, err := load.Run(s, size, o.seed, func(format string, args ...any) { say(began, format, args...) })
	if err != nil {
		return 0, err
	}
	text := report.LoadMarkdown(loads)
	fmt.Println(text)
	if err := os.WriteFile(filepath.Join(o.out, "load.md"), []byte(text), 0o644); err != nil {
		return 0, fmt.Errorf("torture: %w", err)
	}
	for _, l := range loads {
		violations += len(l.Violations())
	}
	return violations, nil
}
