package worker_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/checker"
	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/torture/stage"
	"github.com/go-rlock/rlock/internal/torture/worker"
)

// A mishap is a fault of the network of some workers.
type mishap struct {
	what  string
	begin func(s *stage.Stage) (end func())
}

func imposed(what string, scope stage.Scope, rule func() network.Rule) mishap {
	return mishap{what, func(s *stage.Stage) func() { return s.Networks.Impose(scope, rule) }}
}

// every applies a fate to every nth script, and to the reply to it.
func every(n int, fate network.Fate, at network.Stage) func() network.Rule {
	return func() network.Rule {
		scripts, seen := network.All(fate, at, "EVALSHA", "EVAL"), 0
		return func(f network.Frame) network.Fate {
			if scripts(f) == network.Pass {
				return network.Pass
			}
			if seen++; seen%n != 0 {
				return network.Pass
			}
			return fate
		}
	}
}

var mishaps = []mishap{
	imposed("replies lost", stage.Everyone, every(20, network.Cut, network.Reply)),
	imposed("all held", 0, func() network.Rule { return network.Silence }),
	imposed("requests lost", stage.Everyone, every(20, network.Cut, network.Request)),
	{"no connection", func(s *stage.Stage) func() { return s.Networks.Refuse(1) }},
	imposed("messages dropped", stage.Everyone, func() network.Rule { return network.Deaf }),
	imposed("requests held", stage.Everyone, every(30, network.Hold, network.Request)),
	{"all cut", func(s *stage.Stage) func() {
		s.Networks.Each(stage.Everyone, (*network.Network).Cut)
		return func() {}
	}},
}

// Three processes contend for locks of one kind, while the network fails in one way after the
// other.
func TestTheBeliefsOfWorkersAreTrueOnABrokenNetwork(t *testing.T) {
	const lease = 400 * time.Millisecond
	for _, kind := range worker.Kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel() // they mostly wait, and are processes of their own
			s, dir := openFor(t, kind), t.TempDir()
			for i := range 3 {
				_, err := s.Hire(worker.Role, 4*time.Minute, func(life int) any {
					return worker.Job{
						Address: s.AddressOf(i), Seed: 5, Worker: i, Goroutines: 4, Names: []string{"a", "b", "c"},
						Kinds: []string{kind}, Lease: lease, History: filepath.Join(dir, worker.Job{Worker: i, Life: life}.Name()),
					}
				})
				require.NoError(t, err)
			}
			recorder, err := history.Create(filepath.Join(dir, "test"), "test")
			require.NoError(t, err)
			for acquired := int64(0); acquired < 100; { // repeated if the machine was busy
				_, err := stage.AskAll[worker.Done](s, "storm")
				require.NoError(t, err)
				for _, m := range mishaps {
					heal := recorder.Inject(history.Fault{What: m.what})
					end := m.begin(s)
					time.Sleep(lease) // until it has had its effect
					end()
					heal()
				}
				answers, err := stage.AskAll[worker.Settled](s, "settle")
				require.NoError(t, err)
				for _, settled := range answers {
					require.Empty(t, settled.Hung)
					acquired += settled.Acquired
				}
			}
			ends, err := stage.AskAll[worker.Ended](s, "end")
			require.NoError(t, err)
			for _, ended := range ends {
				require.NoError(t, ended.Err())
			}
			require.NoError(t, recorder.Close())

			paths, err := filepath.Glob(filepath.Join(dir, "*"))
			require.NoError(t, err)
			events, err := history.ReadFiles(paths...)
			require.NoError(t, err)
			report, err := checker.Check(events, checker.Options{Late: time.Second})
			require.NoError(t, err)
			require.Empty(t, report.Violations, "%v", report)
			require.Positive(t, report.Holds)
		})
	}
}
