package elect_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/elect"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

func TestAProcessHearsOfEachNewLeader(t *testing.T) {
	bubble(t, func(t *testing.T, server *rlocktest.Server) {
		watching := server.Client()
		observer := elect.New(watching, name)
		heard := make(chan string, 10)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- observer.Observe(ctx, func(leader string) { heard <- leader }) }()
		time.Sleep(time.Minute)
		assert.Empty(t, heard, "no process leads")

		first, second := stand(t, server, nil, elect.WithText("a")), stand(t, server, nil, elect.WithText("b"))
		time.Sleep(time.Minute)
		first.stop(t)
		time.Sleep(3 * time.Second)
		server.Cut(watching)
		time.Sleep(time.Minute)
		server.Heal(watching)
		server.Lose(name)
		time.Sleep(time.Minute)
		second.stop(t)
		close(heard)
		var leaders []string
		for leader := range heard {
			leaders = append(leaders, leader)
		}
		assert.Equal(t, []string{"a", "b", "b"}, leaders, "the second one leads again after its loss")
		cancel()
		require.NoError(t, <-ended)

		require.NoError(t, watching.Close())
		require.ErrorIs(t, observer.Observe(t.Context(), nil), rlock.ErrClosed)
	})
}

func TestACandidateStandsOnce(t *testing.T) {
	bubble(t, func(t *testing.T, server *rlocktest.Server) {
		leader := stand(t, server, nil)
		require.ErrorIs(t, leader.Run(t.Context(), nil), elect.ErrRunning)
		assert.NotNil(t, leader.Term())
		leader.stop(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, leader.Run(ctx, nil), "again, since the first one is over")
	})
}

func TestAStandbyLogsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder // used by one client
		server := rlocktest.NewServer(t)
		server.HangAfter(2 * time.Hour)
		leader := stand(t, server, nil)
		standby := server.Client(func(c *rlock.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- elect.New(standby, name).Run(ctx, nil) }()
		time.Sleep(time.Hour)
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, standby.Close())
		assert.Empty(t, log.String())
		leader.stop(t)
	})
}
