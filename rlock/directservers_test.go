package rlock_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// A switchboard records the connections of a client.
type switchboard struct {
	mu    sync.Mutex // protects following
	lines []*meter
}

// A meter counts the scripts that a connection has carried.
type meter struct {
	net.Conn
	scripts atomic.Int64
}

func (m *meter) NetConn() net.Conn { return m.Conn }

func (m *meter) Write(b []byte) (int, error) {
	m.scripts.Add(int64(bytes.Count(b, []byte("EVALSHA"))))
	return m.Conn.Write(b)
}

func (b *switchboard) watch(c *rlock.Config) {
	c.Redis.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (conn net.Conn, err error) {
		if config != nil {
			conn, err = (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", address)
		} else {
			conn, err = dialer.DialContext(ctx, "tcp", address)
		}
		if err != nil {
			return nil, err
		}
		m := &meter{Conn: conn}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.lines = append(b.lines, m)
		return m, nil
	}
}

// used returns the connections that have carried a script, the last one opened first.
func (b *switchboard) used() (lines []*meter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range slices.Backward(b.lines) {
		if m.scripts.Load() > 0 {
			lines = append(lines, m)
		}
	}
	return lines
}

func TestALoneCallerOfARealServerIsServedDirectly(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindStandalone, redistest.KindSentinel}, func(t *testing.T, server *redistest.Server) {
		servesDirectly(at(t, server))
	})
	t.Run("with the least rights", func(t *testing.T) {
		s := at(t, redistest.Standalone(t))
		limited := s.limited(s.rights("every lock", "one primary", "direct connection")...)
		servesDirectly(s, func(c *rlock.Config) { c.Redis = limited.Redis })
	})
	t.Run("tls", func(t *testing.T) {
		authority := redistest.NewAuthority(t)
		s := at(t, redistest.TLS(t, authority))
		servesDirectly(s, func(c *rlock.Config) {
			c.Redis.InitAddress = []string{s.TLSAddr()}
			c.Redis.TLSConfig = &tls.Config{RootCAs: authority.Pool(), Certificates: []tls.Certificate{authority.Issue(t)}}
		})
	})
}

func servesDirectly(s *site, changes ...func(*rlock.Config)) {
	t := s.t
	var board switchboard
	lock := s.client(append(changes, board.watch)...).NewLock(key)
	until := func(lines int) *meter {
		for len(board.used()) < lines {
			require.NoError(t, lock.Lock(s.ctx))
			require.NoError(t, lock.Unlock(s.ctx))
		}
		return board.used()[0]
	}
	direct := until(2)
	for lines := range 3 {
		// The server closes the connection while it is idle: that fails no command, though
		// TryLock is not retried.
		killed := s.outside.Do(s.ctx, s.outside.B().Arbitrary("CLIENT", "KILL", "ADDR", direct.LocalAddr().String()).Build())
		require.NoError(t, killed.Error())
		ok, err := lock.TryLock(s.ctx)
		require.NoError(t, err)
		assert.True(t, ok)
		require.NoError(t, lock.Unlock(s.ctx))
		next := until(lines + 3)
		assert.NotSame(t, direct, next)
		direct = next
	}
}
