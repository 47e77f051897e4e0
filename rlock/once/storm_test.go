package once_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"encoding/json"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/go-rlock/rlock/rlock/once"
)

var rounds = flag.Int("storms", 3, "how many storms of each sort")

// A storm is callers of several processes that come, wait and leave at random, while locks are
// lost, messages are lost or late, and connections break. Each value names the time at which its
// function began. In virtual time the server has the clock of the callers, and a function takes
// time: so a caller that gets a value which was stored before it asked is found.
type storm struct {
	mu     sync.Mutex
	stored map[string]time.Time // the end of each run, by its value: the store is not before it
	given  int
	early  int // values that were complete, and stored, before their caller asked

	deleted time.Time       // when the lock's key was deleted last
	fenced  map[string]bool // the values of leaders that had lost the lock before their store
	stale   int             // values given that are among these
}

func (s *storm) run(t *testing.T, seed uint64) {
	testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
		random := rand.New(rand.NewPCG(seed, 7))
		s.deleted = time.Time{} // each storm begins at the same time
		var all []*process
		for range 4 {
			p := start(w, once.Options{}, testbed.WithLease(3*time.Second))
			p.client.Net.SetRoundTrip(time.Duration(1+random.IntN(20)) * time.Millisecond)
			all = append(all, p)
		}
		work := time.Duration(1+random.IntN(60)) * time.Millisecond
		ctx, cancel := context.WithTimeout(w.Ctx, 40*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for i := range 20 {
			p, r := all[i%len(all)], rand.New(rand.NewPCG(seed, uint64(i)))
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
					s.ask(ctx, p, r, work, fmt.Sprintf("%d.%d.%d", seed, i, n))
				}
			})
		}
		wg.Go(func() { // a process's messages are late: they wait until the next fault
			for ctx.Err() == nil {
				time.Sleep(time.Duration(100+random.IntN(900)) * time.Millisecond)
				p := all[random.IntN(len(all))]
				switch random.IntN(8) {
				case 0:
					p.client.Net.Cut()
				case 1, 2, 3:
					s.mu.Lock()
					w.Del(key)
					s.deleted = time.Now()
					s.mu.Unlock()
				case 4:
					p.client.Net.Rule(network.Deaf)
				default:
					p.client.Net.Rule(func(f network.Frame) network.Fate {
						if f.Stage == network.Push {
							return network.Hold
						}
						return network.Pass
					})
				}
				time.Sleep(time.Duration(100+random.IntN(400)) * time.Millisecond)
				p.client.Net.Rule(nil)
				p.client.Net.Deliver()
			}
		})
		wg.Wait()
		for _, p := range all {
			p.client.Net.Heal()
		}
	})
}

func (s *storm) ask(ctx context.Context, p *process, r *rand.Rand, work time.Duration, name string) {
	wait, cancel := context.WithTimeout(ctx, time.Duration(1+r.IntN(6000))*time.Millisecond)
	defer cancel()
	asked := time.Now()
	value, _, err := p.Do(wait, key, func(ctx context.Context) ([]byte, error) {
		began := time.Now()
		select {
		case <-time.After(work):
			s.mu.Lock()
			defer s.mu.Unlock()
			s.stored[name] = time.Now()
			if !once.HoldOf(ctx).Valid() || s.deleted.After(began) {
				s.fenced[name] = true
			}
			return []byte(name), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given++
	// A store is sent once, and follows the end of its function by half a round trip, 10 ms at
	// most.
	if s.stored[string(value)].Add(50 * time.Millisecond).Before(asked) {
		s.early++
	}
	if s.fenced[string(value)] {
		s.stale++
	}
}

func TestNoCallerGetsAValueThatWasStoredBeforeItAsked(t *testing.T) {
	s := &storm{stored: map[string]time.Time{}, fenced: map[string]bool{}}
	rounds := redistest.Rounds(*rounds)
	for seed := range uint64(rounds) {
		s.run(t, seed)
	}
	t.Logf("%d values given, %d runs, %d stored before the call; %d fenced leaders, %d of their values given", s.given, len(s.stored), s.early, len(s.fenced), s.stale)
	assert.Greater(t, s.given, 300*rounds, "a storm that gives few values shows nothing")
	assert.Less(t, len(s.stored), s.given/2, "and so does one where nearly all run")
	assert.NotEmpty(t, s.fenced, "or where no leader loses its lock")
	assert.Zero(t, s.early, "too early")
	assert.Zero(t, s.stale, "a fenced leader's")
}

// Rules are broken in their text. The storm must find that.
func TestTheStormFindsABrokenRule(t *testing.T) {
	redistest.Slow(t)
	for _, rule := range []struct{ file, text, broken, found string }{
		{ // a message is for all that wait
			"rule.go", "return floor > 0 && s.at > 0 && (s.at > floor || floor < s.until)", "return true", "too early",
		},
		{ // a leader that was fenced gives its value to the callers of its process
			"lead.go", "// nothing was stored, and another process may have run since", "\n\t\tf.settle(r)", "a fenced leader's",
		},
	} {
		t.Run(rule.found, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(rule.file)
			require.NoError(t, err)
			require.Contains(t, string(text), rule.text)
			dir := t.TempDir()
			broken, overlay := filepath.Join(dir, rule.file), filepath.Join(dir, "overlay.json")
			require.NoError(t, os.WriteFile(broken, []byte(strings.Replace(string(text), rule.text, rule.broken, 1)), 0o600))
			here, err := filepath.Abs(rule.file)
			require.NoError(t, err)
			list, err := json.Marshal(map[string]any{"Replace": map[string]string{here: broken}})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(overlay, list, 0o600))
			out, err := exec.Command("go", "test", "-vet=off", "-overlay", overlay, "-run", "TestNoCallerGets", ".").CombinedOutput()
			require.Error(t, err, "%s", out)
			assert.Contains(t, string(out), rule.found, "%s", out)
		})
	}
}
