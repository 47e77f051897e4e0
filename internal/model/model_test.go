package model_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	long = flag.Bool("long", false, "check all that ends within some seconds, not only what ends within a second")
	deep = flag.Bool("deep", false, "check also what takes minutes and some gigabytes")
)

// effort says when a run is made.
type effort int

const (
	always effort = iota
	inLong
	inDeep
)

// TestNothingGoesWrong explores every state of each configuration.
func TestNothingGoesWrong(t *testing.T) {
	for _, c := range configurations {
		t.Run(c.name, func(t *testing.T) {
			skipUnless(t, c.effort)
			t.Parallel()
			check(t, c.effort, c.defines, "")
		})
	}
}

// TestEachRuleIsNeeded explores the model without each rule until something goes
// wrong. With -v it logs the events.
func TestEachRuleIsNeeded(t *testing.T) {
	for _, r := range rules {
		t.Run(r.name(), func(t *testing.T) {
			skipUnless(t, r.effort)
			t.Parallel()
			defines := r.defines
			for _, d := range r.dropped {
				defines += " -D" + d + "=0"
			}
			check(t, r.effort, defines, r.violates)
		})
	}
}

// TestEachRuleHasARow finds each rule of rules.pml in the table, and the table in the README.
func TestEachRuleHasARow(t *testing.T) {
	source, err := os.ReadFile("rules.pml")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, r := range rules {
		for _, d := range r.dropped {
			named[d] = true
		}
		if row := fmt.Sprintf("| `%s` | %s |", r.name(), r.otherwise); !bytes.Contains(readme, []byte(row)) {
			t.Errorf("README.md lacks a row that begins with\n%s", row)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^#define (\w+) RULE$`).FindAllSubmatch(source, -1) {
		if name := string(m[1]); !named[name] {
			t.Errorf("no row for %s", name)
		}
	}
}

func skipUnless(t *testing.T, e effort) {
	t.Helper()
	switch {
	case e == inLong && !*long && !*deep:
		t.Skip("only with -long")
	case e == inDeep && !*deep:
		t.Skip("only with -deep")
	}
	for _, tool := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("RLOCK_REQUIRE_SPIN") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
}

var (
	violated = regexp.MustCompile(`pan:1: (.*) \(at depth`)
	stored   = regexp.MustCompile(`(\d+) states, stored`)
	event    = regexp.MustCompile(`^\s*(client|Redis|FAULT|Guest|----|"|ticket|in the queue)`)
)

// check builds the model with the defines and explores its states, breadth
// first. It fails unless the assertion that is violated, "" for none, contains
// want.
func check(t *testing.T, e effort, defines, want string) {
	t.Helper()
	dir := t.TempDir()
	sources, err := filepath.Glob("*.pml")
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources { // spin and the explorer write beside the model
		text, err := os.ReadFile(source)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, source), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	options := strings.Fields(defines)
	begin := time.Now()
	run(t, dir, "spin", append(append([]string{"-a"}, options...), "queue.pml")...)
	// For a model that is soon explored, optimisation costs more than it saves, and gcc
	// takes twenty times as long as tcc for code that is as fast.
	// A long exploration stores hashes of 64 bits and more in place of states.
	compiler, compile := "gcc", []string{"-O0"}
	if e == inDeep {
		compile = []string{"-O1", "-DHC4"}
	} else if _, err := exec.LookPath("tcc"); err == nil {
		compiler = "tcc"
	}
	run(t, dir, compiler, append(compile, "-w", "-DSAFETY", "-DBFS", "-DNOREDUCE", "-o", "pan", "pan.c")...)
	built := time.Now()
	out := run(t, dir, "./pan", "-v")
	found := ""
	if m := violated.FindStringSubmatch(out); m != nil {
		found = m[1]
	}
	states := stored.FindStringSubmatch(out)
	if states == nil || found == "" && !strings.Contains(out, "errors: 0") || strings.Contains(out, "error: ") {
		t.Fatalf("the exploration did not end:\n%s", out)
	}
	t.Logf("%s states; built in %.1f s, explored in %.1f s; violated: %s",
		states[1], built.Sub(begin).Seconds(), time.Since(built).Seconds(), found)
	ok := found == "" && want == "" || want != "" && strings.Contains(found, want)
	if !ok {
		t.Errorf("violated: %q, want %q", found, want)
	}
	if found != "" && (!ok || testing.Verbose()) {
		trace := run(t, dir, "spin", append(append([]string{"-t", "-T", "-B"}, options...), "queue.pml")...)
		var events []string
		for line := range strings.Lines(trace) {
			if event.MatchString(line) {
				events = append(events, line)
			}
		}
		t.Logf("what happened:\n%s", strings.Join(events, ""))
	}
}

// run runs a command to its end and returns its output. Both spin and the
// explorer may exit with an error when they have found one; their output tells.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || strings.HasSuffix(name, "cc")) {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}
