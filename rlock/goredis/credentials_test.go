package goredis_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/goredis"
)

// A vault has the password of the user alice, for each kind of provider.
type vault struct {
	mu       sync.Mutex // protects all
	password string
	err      error
}

func (v *vault) get() (username, password string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return "alice", v.password
}

func (v *vault) getContext(ctx context.Context) (username, password string, err error) {
	if _, limited := ctx.Deadline(); !limited {
		return "", "", errors.New("the context has no end")
	}
	username, password = v.get()
	return username, password, v.err
}

// rotate changes the password at the server and in the vault, and ends all connections.
func (v *vault) rotate(t *testing.T, s *redistest.Server, password string) {
	t.Helper()
	admin := s.Client(t)
	set := admin.B().AclSetuser().Username("alice").Rule("reset", "on", ">"+password, "~*", "&*", "+@all").Build()
	require.NoError(t, admin.Do(t.Context(), set).Error()) // which ends the connections of alice only with a rule off
	v.mu.Lock()
	v.password = password
	v.mu.Unlock()
	require.NoError(t, admin.Do(t.Context(), admin.B().Arbitrary("CLIENT", "KILL", "USER", "alice").Build()).Error())
}

func TestProvidersOfCredentialsAreAskedForEachConnection(t *testing.T) {
	s := redistest.Standalone(t)
	wrong := func() (username, password string) { return "alice", "wrong" }
	for name, options := range map[string]func(v *vault) *redis.Options{
		"CredentialsProvider":        func(v *vault) *redis.Options { return &redis.Options{CredentialsProvider: v.get} },
		"CredentialsProviderContext": func(v *vault) *redis.Options { return &redis.Options{CredentialsProviderContext: v.getContext} },
		"the context's before the other": func(v *vault) *redis.Options {
			return &redis.Options{CredentialsProviderContext: v.getContext, CredentialsProvider: wrong, Password: "wrong"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := new(vault)
			v.rotate(t, s, "first")
			o := options(v)
			o.Addr = s.Addr()
			option, err := goredis.FromOptions(o)
			require.NoError(t, err)
			client := lockWith(t, option, live(t, redis.NewClient(o)))
			v.rotate(t, s, "second")
			require.Eventually(t, func() bool {
				hold, err := client.NewLock("after").Acquire(t.Context(), rlock.WithWait(0))
				return err == nil && assert.NoError(t, hold.Release(t.Context()))
			}, redistest.Hang, 10*time.Millisecond, "over a connection with the new password")
		})
	}
}

func TestTheErrorOfAProviderIsThatOfNew(t *testing.T) {
	s := redistest.Standalone(t)
	v := &vault{err: errors.New("the vault is closed")}
	option, err := goredis.FromOptions(&redis.Options{Addr: s.Addr(), CredentialsProviderContext: v.getContext})
	require.NoError(t, err)
	_, err = rlock.New(rlock.Config{Redis: option, Logger: slog.New(slog.DiscardHandler)})
	require.ErrorIs(t, err, v.err)
}
