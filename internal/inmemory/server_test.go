package inmemory_test

import (
	"fmt"
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

func TestAServerThatWasStoppedKeepsItsData(t *testing.T) {
	s := newServer(t)
	client := connect(t, s)
	require.NoError(t, client.Do(t.Context(), client.B().Set().Key("key").Value("1").Build()).Error())
	s.Stop()
	_, err := s.Dial()
	require.ErrorContains(t, err, "refused")
	s.Start()
	value, err := connect(t, s).Do(t.Context(), client.B().Get().Key("key").Build()).ToString()
	require.NoError(t, err)
	assert.Equal(t, "1", value)
}

func TestRefusedCommandsAreCountedAndGetTheError(t *testing.T) {
	s := newServer(t)
	client := connect(t, s)
	s.Refuse(func(command string, args ...string) string {
		if command == "set" && args[0] == "key" {
			return "OOM no memory"
		}
		return ""
	})
	set := func(key string) error {
		return client.Do(t.Context(), client.B().Set().Key(key).Value("1").Build()).Error()
	}
	require.EqualError(t, set("key"), "OOM no memory")
	require.NoError(t, set("another"))
	s.Refuse(nil)
	require.NoError(t, set("key"))
	assert.EqualValues(t, 3, s.Calls()["set"])
}

func ExampleServer() {
	server := inmemory.New()
	defer server.Close()
	client, err := rueidis.NewClient(server.Options())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	_ = server.Miniredis().Set("greeting", "hello")
	fmt.Println(server.Miniredis().Get("greeting"))
	// Output: hello <nil>
}
