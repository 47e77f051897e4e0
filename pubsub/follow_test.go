package pubsub_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/inmemory"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/pubsub"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A moving is a hub whose address leads to one of two servers. Connections stay where they were
// opened.
type moving struct {
	old, present *inmemory.Server
	at           atomic.Pointer[inmemory.Server] // the server to which the address leads
	client       rueidis.Client
	hub          *pubsub.Hub
	log          bytes.Buffer
}

// move runs a test with a hub that is subscribed to "a" at the old server.
func move(t *testing.T, run func(t *testing.T, m *moving)) {
	t.Helper()
	t.Parallel()
	redistest.WithoutServer(t)
	redistest.Virtual(t, func(t *testing.T) {
		m := &moving{old: inmemory.New(), present: inmemory.New()}
		t.Cleanup(m.old.Close)
		t.Cleanup(m.present.Close)
		m.at.Store(m.old)
		option := m.old.Options()
		option.PipelineMultiplex, option.AlwaysPipelining = -1, true
		option.DialCtxFn = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return m.at.Load().Dial() }
		var err error
		m.client, err = rueidis.NewClient(option)
		require.NoError(t, err)
		t.Cleanup(m.client.Close)
		m.hub = pubsub.New(pubsub.Config{Client: m.client, Logger: slog.New(slog.NewTextHandler(&m.log, nil))})
		t.Cleanup(m.hub.Close)
		awaitWake(t, wait(m.hub, "a"))
		synctest.Wait()
		run(t, m)
	})
}

// dialAgain ends the connection of the commands, and opens another one.
func (m *moving) dialAgain(t *testing.T) {
	m.client.Do(t.Context(), m.client.B().Quit().Build())
	synctest.Wait()
	require.NoError(t, m.client.Do(t.Context(), m.client.B().Ping().Build()).Error())
}

func (m *moving) listeners(s *inmemory.Server) int { return s.Miniredis().PubSubNumSub("a")["a"] }

func TestMessagesFollowTheCommandsToAnotherServer(t *testing.T) {
	move(t, func(t *testing.T, m *moving) {
		m.at.Store(m.present)
		m.dialAgain(t)
		assert.Equal(t, 0, m.listeners(m.present), "the old server is alive, and keeps its connection")

		m.hub.CheckServer()
		time.Sleep(10 * time.Millisecond)
		assert.Equal(t, 1, m.listeners(m.present))
		assert.True(t, m.hub.Confirmed("a"))
		synctest.Wait()
		assert.Equal(t, 0, m.listeners(m.old))
	})
}

// The connection of the commands is the older one here, and is left as it is. The other leads where
// the address leads, which is tried again ever more rarely, and logged once.
func TestMessagesThatCannotFollowAreSubscribedAgainAtABoundedRate(t *testing.T) {
	move(t, func(t *testing.T, m *moving) {
		m.at.Store(m.present)
		m.old.Miniredis().Server().Close() // ends both connections
		m.old.Start()
		m.at.Store(m.old)
		m.dialAgain(t)
		m.at.Store(m.present)
		synctest.Wait()

		before := m.present.Calls()["subscribe"]
		time.Sleep(10 * time.Minute)
		again := m.present.Calls()["subscribe"] - before
		assert.InDelta(t, 10*60/30+5, again, 3)
		assert.Equal(t, 1, strings.Count(m.log.String(), "another server"), m.log.String())
		m.at.Store(m.old)
		time.Sleep(31 * time.Second)
		assert.Equal(t, 1, m.listeners(m.old))
	})
}

func TestMessagesStayAtAServerThatDoesNotSayWhichOneItIs(t *testing.T) {
	move(t, func(t *testing.T, m *moving) {
		m.present.Refuse(func(command string, _ ...string) string {
			if command == "info" {
				return "NOPERM this user has no permissions to run the 'info' command"
			}
			return ""
		})
		m.at.Store(m.present)
		m.dialAgain(t)
		m.hub.CheckServer()
		time.Sleep(time.Minute)
		assert.Equal(t, 1, m.listeners(m.old))
	})
}
