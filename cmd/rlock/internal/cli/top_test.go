//go:build unix

package cli_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
)

func TestTopWritesLinesWithoutATerminal(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.hold(s.client.NewLock("orders:1"))
	s.hold(s.client.NewLock("orders:2"))
	s.hold(s.client.NewLock("stock"))
	p := s.start("exec", "orders:2", "--", "true")
	s.awaitWaiter("orders:2")
	code, stdout, stderr := s.run("", "top", "--count", "2", "--interval", "50ms", "orders:*")
	require.Zero(t, code, stderr)
	looks := strings.Split(strings.TrimSpace(stdout), "\n\n")
	require.Len(t, looks, 2)
	lines := strings.Split(looks[1], "\n")
	require.Len(t, lines, 4)
	assert.Contains(t, lines[0], "2 held")
	assert.Contains(t, lines[0], "1 waiting")
	assert.True(t, strings.HasPrefix(lines[2], "orders:2"), "the lock has a waiter: %s", lines[2])
	assert.NotContains(t, stdout, "\x1b")

	code, stdout, _ = s.run("", "top", "--json", "--count", "1", "--sort", "name", "--limit", "1")
	assert.Zero(t, code)
	var look struct {
		Held    int
		LeftOut int `json:"left_out"`
		Locks   []struct{ Name string }
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &look))
	assert.Equal(t, 1, look.Held)
	assert.Equal(t, 2, look.LeftOut)
	p.signal(syscall.SIGTERM)
	assert.Equal(t, 128+15, p.wait())
}

func TestTopOutlivesItsServer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.hold(s.client.NewLock("orders"))
	wire, err := network.Listen(s.addr)
	require.NoError(t, err)
	defer wire.Close()
	p := s.start("top", "--json", "--interval", "50ms", "--addr", wire.Addr())
	type state struct {
		Held         int
		Error        string
		FailingSince *time.Time `json:"failing_since"`
	}
	await := func(what string, reached func(state) bool) (look state) {
		t.Helper()
		for !reached(look) {
			look = state{}
			require.NoError(t, json.Unmarshal([]byte(p.line()), &look), what)
		}
		return look
	}
	await("the lock", func(l state) bool { return l.Held == 1 })
	wire.Refuse()
	failed := await("the failure", func(l state) bool { return l.Error != "" })
	assert.NotNil(t, failed.FailingSince)
	later := await("a second failure", func(l state) bool { return l.Error != "" })
	assert.Equal(t, failed.FailingSince, later.FailingSince)
	wire.Heal()
	await("the lock again", func(l state) bool { return l.Error == "" && l.Held == 1 })
}

func TestTheExitCodeOfTopTellsWhyItFailed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, args := range [][]string{{"--interval", "1ms"}, {"--count", "-1"}, {"--limit", "0"}, {"--sort", "losses"}, {"--json", "--plain"}, {"a", "b"}} {
		code, _, stderr := s.run("", append([]string{"top"}, args...)...)
		assert.Equal(t, 2, code, args)
		assert.NotEmpty(t, stderr, args)
	}
	code, _, stderr := s.run("", "top", "--addr", "127.0.0.1:1")
	assert.Equal(t, 69, code)
	assert.Contains(t, stderr, "cannot connect")
}

// Each look is compared with the reports of the processes themselves. Their clock is the
// same.
func TestTopAgreesWithTheHistoryOfAFleet(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	stops := make([]func() []tenure, 6)
	for i := range stops {
		cmd := s.locker(withHistory)
		var out bytes.Buffer
		cmd.Stdout = &out
		stdin, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		stops[i] = func() (told []tenure) {
			require.NoError(t, stdin.Close())
			require.NoError(t, cmd.Wait())
			for line := range bytes.Lines(out.Bytes()) {
				var one tenure
				require.NoError(t, json.Unmarshal(line, &one))
				told = append(told, one)
			}
			return told
		}
	}
	const window = 10 // looks in the window of a rate
	p := s.start("top", "--json", "--interval", "50ms", "--count", "40", "fleet:*")
	type look struct {
		Time   time.Time
		TookMS int `json:"took_ms"`
		Locks  []struct {
			Name         string
			SeenMS       int     `json:"seen_ms"`
			NewPerSecond float64 `json:"new_per_second"`
			Holders      []struct{ Owner string }
		}
	}
	var looks []look
	for range 40 {
		var l look
		require.NoError(t, json.Unmarshal([]byte(p.line()), &l))
		looks = append(looks, l)
	}
	assert.Zero(t, p.wait())
	history := make(map[string][]tenure) // by lock
	for _, stop := range stops {
		for _, one := range stop() {
			history[one.Lock] = append(history[one.Lock], one)
		}
	}

	holders := 0
	for at, l := range looks {
		end := l.Time.Add(time.Duration(l.TookMS+1) * time.Millisecond)
		for _, lock := range l.Locks {
			for _, holder := range lock.Holders {
				_, number, _ := strings.Cut(holder.Owner, ":")
				i := slices.IndexFunc(history[lock.Name], func(one tenure) bool {
					return strings.HasPrefix(holder.Owner, one.Client) && one.Owner == number
				})
				require.GreaterOrEqual(t, i, 0, "%s was never held by %s", lock.Name, holder.Owner)
				one := history[lock.Name][i]
				assert.True(t, one.Asked.Before(end) && one.Done.After(l.Time), "%+v was no holder at %v", one, l.Time)
				assert.LessOrEqual(t, time.Duration(lock.SeenMS)*time.Millisecond, end.Sub(one.Asked), "a tenure is not seen for longer than it lasted")
				holders++
			}
			begin := looks[max(at-window, 0)].Time
			tenures := 0
			for _, one := range history[lock.Name] {
				if one.Asked.Before(end) && one.Done.After(begin) {
					tenures++
				}
			}
			assert.LessOrEqual(t, lock.NewPerSecond*l.Time.Sub(begin).Seconds(), float64(tenures)+0.01, "the rate is a lower bound")
		}
	}
	assert.Greater(t, holders, 40, "too few holders to compare")
}
