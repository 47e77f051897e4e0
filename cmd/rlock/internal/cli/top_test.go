//go:build unix

package cli_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
)

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
