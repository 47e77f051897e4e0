package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// CountCalls returns how often each command was executed while run ran, by its
// name in lower case ("evalsha", "config|get"), on all primaries together. Commands
// that were not executed are absent.
//
// The commands of a script count too, next to the script's own EVALSHA. So do the commands
// that clients and servers send by themselves ("ping", "hello", "replconf"): look at names,
// not at sums. The count of a server that is stopped or changes its role during run is lost.
func (s *Server) CountCalls(t testing.TB, run func()) map[string]int64 {
	t.Helper()
	primaries, err := s.primaries()
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.calls(primaries)
	if err != nil {
		t.Fatal(err)
	}
	run()
	calls, err := s.calls(primaries)
	if err != nil {
		t.Fatal(err)
	}
	for command, n := range before {
		if calls[command] -= n; calls[command] == 0 {
			delete(calls, command)
		}
	}
	return calls
}

// calls returns the commands that the primaries have executed since they started.
func (s *Server) calls(primaries []*process) (map[string]int64, error) {
	if s.embedded != nil {
		return s.embedded.Calls(), nil
	}
	calls := make(map[string]int64)
	for _, p := range primaries {
		info, err := p.do("INFO", "commandstats").ToString()
		if err != nil {
			return nil, fmt.Errorf("redistest: INFO of %s: %w", p.addr(), err)
		}
		for line := range strings.Lines(info) { // cmdstat_evalsha:calls=2,usec=...
			command, figures, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
			if !ok {
				continue
			}
			figure, _, _ := strings.Cut(figures, ",")
			n, err := strconv.ParseInt(figure, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("redistest: INFO of %s: %q: %w", p.addr(), line, err)
			}
			calls[command] += n
		}
	}
	return calls, nil
}

// primaries returns the nodes that call themselves primaries.
func (s *Server) primaries() ([]*process, error) {
	var primaries []*process
	for _, p := range s.runningNodes() {
		role, err := p.do("ROLE").ToArray()
		if err != nil {
			return nil, fmt.Errorf("redistest: ROLE of %s: %w", p.addr(), err)
		}
		if name, _ := role[0].ToString(); name == "master" {
			primaries = append(primaries, p)
		}
	}
	return primaries, nil
}
