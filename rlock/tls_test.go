package rlock_test

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

func TestALockOverTLSWhereBothSidesHaveACertificateOfAPrivateAuthority(t *testing.T) {
	ours, others := redistest.NewAuthority(t), redistest.NewAuthority(t)
	s := at(t, redistest.TLS(t, ours))
	config := func(tls *tls.Config) rlock.Config {
		return rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{s.TLSAddr()}, TLSConfig: tls}, Logger: quiet}
	}
	good := &tls.Config{RootCAs: ours.Pool(), Certificates: []tls.Certificate{ours.Issue(t)}}

	t.Run("works", func(t *testing.T) {
		s := s.in(t)
		secure := func(c *rlock.Config) { c.Redis = config(good).Redis }
		here, there := s.client(secure), s.client(secure)
		s.wakes(here, there, plain)
		lock := here.NewLock(key)
		require.NoError(t, lock.Lock(s.ctx))
		require.NoError(t, s.outside.Do(s.ctx, s.outside.B().Arbitrary("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Build()).Error())
		for _, client := range []*rlock.Client{here, there} {
			locked, err := client.NewLock(key).IsLocked(s.ctx)
			require.NoError(t, err, "over a new connection")
			assert.True(t, locked)
		}
		require.NoError(t, lock.Unlock(s.ctx))
	})

	before := goleak.IgnoreCurrent()
	for what, refused := range map[string]struct {
		tls  *tls.Config
		says string
	}{
		"the authority is another":                {&tls.Config{RootCAs: others.Pool(), Certificates: good.Certificates}, "signed by unknown authority"},
		"the authority is not known":              {&tls.Config{Certificates: good.Certificates}, "signed by unknown authority"},
		"the server has another name":             {&tls.Config{RootCAs: ours.Pool(), Certificates: good.Certificates, ServerName: "redis.example"}, "redis.example"},
		"the client has no certificate":           {&tls.Config{RootCAs: ours.Pool()}, "takes the client's certificate"},
		"the client's is of another authority":    {&tls.Config{RootCAs: ours.Pool(), Certificates: []tls.Certificate{others.Issue(t)}}, "takes the client's certificate"},
		"the client does not know that it is TLS": {nil, s.TLSAddr()},
	} {
		t.Run(what, func(t *testing.T) {
			client, err := rlock.New(config(refused.tls))
			require.Error(t, err)
			assert.ErrorContains(t, err, refused.says)
			assert.ErrorContains(t, err, s.TLSAddr())
			assert.Nil(t, client)
		})
	}
	// rueidis leaves a goroutine asleep for a second after a failure.
	assert.Eventually(t, func() bool { return goleak.Find(before, aFailedHandshake) == nil }, hang, time.Millisecond, "a goroutine is left")
}
