package inmemory_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/inmemory"
	"github.com/go-rlock/rlock/internal/redistest"
)

func newServer(t *testing.T) *inmemory.Server {
	s := inmemory.New()
	t.Cleanup(s.Close)
	return s
}

func connect(t *testing.T, s *inmemory.Server) rueidis.Client {
	t.Helper()
	option := s.Options()
	option.ConnWriteTimeout = redistest.Hang // a script may be slow on a busy machine
	client, err := rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func TestAKeyEndsInVirtualTime(t *testing.T) {
	redistest.Virtual(t, func(t *testing.T) {
		s := newServer(t)
		m := s.Miniredis()
		require.NoError(t, m.Set("key", "1"))
		m.SetTTL("key", time.Hour)
		time.Sleep(time.Hour - time.Millisecond)
		assert.True(t, m.Exists("key"))
		time.Sleep(time.Millisecond)
		assert.False(t, m.Exists("key"), "the key must end for a Miniredis that was kept, too")
	})
}

// The script counts until the key has ended, for longer than the key lives, and asks again.
func TestTimeStandsStillWhileAScriptRuns(t *testing.T) {
	s := newServer(t)
	client := connect(t, s)
	const script = `
		redis.call('set', KEYS[1], '1', 'px', '1')
		for i = 1, 2e4 do redis.call('get', KEYS[1]) end
		return redis.call('exists', KEYS[1])`
	exists, err := client.Do(t.Context(), client.B().Eval().Script(script).Numkeys(1).Key("key").Build()).AsInt64()
	require.NoError(t, err)
	assert.EqualValues(t, 1, exists)
	for s.Miniredis().Exists("key") { // and goes on after the script
		time.Sleep(time.Millisecond)
	}
}
