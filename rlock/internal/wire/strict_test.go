package wire_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The keys of other readers cannot be declared. On a server that demands it the first acquire is
// refused, and leaves nothing.
func TestAServerThatDemandsDeclaredKeysRefusesAReadWriteLock(t *testing.T) {
	prelude, err := os.ReadFile("testdata/strict.lua")
	require.NoError(t, err)
	strict := strings.Replace(string(prelude), "local readers = true", "local readers = false", 1)
	require.NotEqual(t, strict, string(prelude))
	redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone}, func(t *testing.T, s *redistest.Server) {
		redis := openAt(t, s)
		k, err := redis.KeysOf("lock", layouts[2], "")
		require.NoError(t, err)
		owner := wire.NewID().Owner(1)
		acquire := wire.WithText(strict + wire.ReadWriteAcquire.Text())
		for _, mode := range []string{"read", "write"} {
			err := redis.Do(t.Context(), acquire.Call(4, k.Key, k.Queue(), k.Extra(), k.Extra()+":"+owner+":rwlock_timeout:1", "30000", owner, mode)).Error()
			require.ErrorIs(t, wire.Explain(err), wire.ErrUnsupported, mode)
			left, err := redis.Client.Do(t.Context(), redis.Client.B().Arbitrary("DBSIZE").Build()).AsInt64()
			require.NoError(t, err)
			assert.Zero(t, left, mode)
		}
	})
}
