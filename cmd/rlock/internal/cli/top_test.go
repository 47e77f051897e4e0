//go:build unix

package cli_test

import (
	"encoding/json"
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
