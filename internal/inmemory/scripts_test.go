package inmemory_test

import (
	"bufio"
	"context"
	"crypto/sha1"
	"crypto/tls"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAScriptGivesTheSameReplyAsInMiniredis(t *testing.T) {
	plain := miniredis.NewMiniRedis()
	t.Cleanup(plain.Close)
	options := newServer(t).Options()
	options.DialCtxFn = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return plain.Dial() }
	reference, err := rueidis.NewClient(options)
	require.NoError(t, err)
	t.Cleanup(reference.Close)
	for _, script := range []string{
		"return 7",
		"return 7.9",
		"return redis.call('set', KEYS[1], ARGV[1])",
		"redis.call('set', KEYS[1], ARGV[1]); return redis.call('get', KEYS[1])",
		"return redis.call('get', 'none')",
		"return {1, 'two', false, true, {3, {}}, 'end'}",
		"return {1, nil, 2}",
		"redis.call('hset', KEYS[1], 'a', 1, 'b', 2); return redis.call('hgetall', KEYS[1])",
		"return redis.call('time')[1] ~= nil",
		"return redis.status_reply('FINE')",
		"return redis.error_reply('MINE of mine')",
		"return redis.error_reply('mine')",
		"return redis.pcall('hget')",
		"return redis.pcall('hget').err",
		"redis.call('set', KEYS[1], 'x'); return redis.pcall('hget', KEYS[1], 'f')",
		"return type(redis.call('get', 'none'))",
		"return {#KEYS, #ARGV, KEYS[1], ARGV[1], ARGV[2]}",
		"return math.max(1, 2) .. string.sub('abc', 2) .. table.concat({'x', 'y'})",
		"redis.call('select', 1); return redis.call('set', 'elsewhere', 1)",
		"return redis.call('exists', 'elsewhere')", // the script before has selected a database for itself alone
		"return nil",
		"",
		// These are left to miniredis.
		"return cjson.encode({1})",
		"return redis.sha1hex('x')",
	} {
		server := newServer(t)
		client := connect(t, server)
		first := client.Do(t.Context(), client.B().Eval().Script("return redis.call('exists', 'key')").Numkeys(0).Build())
		require.NoError(t, first.Error())
		args := []string{"1", "key", "first", "second"}
		reply := func(client rueidis.Client, command, text string) string {
			require.NoError(t, client.Do(t.Context(), client.B().Flushall().Build()).Error())
			result, err := client.Do(t.Context(), client.B().Arbitrary(command, text).Args(args...).Build()).ToMessage()
			return fmt.Sprintf("%v %v", result.String(), err)
		}
		want := reply(reference, "EVAL", script)
		sha := fmt.Sprintf("%x", sha1.Sum([]byte(script)))
		assert.Equal(t, want, reply(client, "EVAL", script), script)
		assert.Equal(t, want, reply(client, "EVALSHA", sha), script)
		assert.Equal(t, want, reply(client, "EVALSHA", sha), "once more: %s", script)
		require.NoError(t, client.Do(t.Context(), client.B().Arbitrary("SCRIPT", "FLUSH").Build()).Error())
		assert.Contains(t, reply(client, "EVALSHA", sha), "NOSCRIPT", script)
	}
}

func TestAScriptThatFailsLeavesNothingToTheNextOne(t *testing.T) {
	server := newServer(t)
	client := connect(t, server)
	eval := func(script string) (string, error) { // the second time in the shared state
		_ = client.Do(t.Context(), client.B().Eval().Script(script).Numkeys(0).Build())
		return client.Do(t.Context(), client.B().Eval().Script(script).Numkeys(0).Build()).ToString()
	}
	_, err := eval("redis.call('exists', 'key'); mine = 1; return 'not reached'")
	require.ErrorContains(t, err, "Script attempted to create global variable 'mine'")
	_, err = eval("return mine")
	require.ErrorContains(t, err, "Script attempted to access nonexistent global variable 'mine'")
	_, err = eval("return redis.call('no such command')")
	require.ErrorContains(t, err, "ERR unknown command")
	_, err = eval("return KEYS[1] .. 'x'")
	require.ErrorContains(t, err, "cannot perform concat")
	reply, err := eval("return 'fine'")
	require.NoError(t, err)
	assert.Equal(t, "fine", reply)
}

// A connection in a transaction, or with a database of its own, has its script executed by
// miniredis.
func TestAScriptKnowsItsConnection(t *testing.T) {
	server := newServer(t)
	client := connect(t, server)
	const script = "return redis.call('incr', 'count')"
	require.NoError(t, client.Do(t.Context(), client.B().Eval().Script(script).Numkeys(0).Build()).Error())
	sha := fmt.Sprintf("%x", sha1.Sum([]byte(script)))
	conn, err := server.Dial()
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	lines := bufio.NewScanner(conn)
	send := func(command ...string) string {
		request := fmt.Sprintf("*%d\r\n", len(command))
		for _, word := range command {
			request += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
		}
		_, err := conn.Write([]byte(request))
		require.NoError(t, err)
		require.True(t, lines.Scan())
		return lines.Text()
	}
	assert.Equal(t, ":2", send("EVALSHA", sha, "0"))
	assert.Equal(t, "+OK", send("MULTI"))
	assert.Equal(t, "+QUEUED", send("EVALSHA", sha, "0"))
	assert.Equal(t, "*1", send("EXEC"))
	require.True(t, lines.Scan())
	assert.Equal(t, ":3", lines.Text())
	assert.Equal(t, "+OK", send("SELECT", "1"))
	assert.Equal(t, ":1", send("EVALSHA", sha, "0"), "in the other database")
	server.Miniredis().RequireAuth("secret")
	assert.Contains(t, send("EVALSHA", sha, "0"), "NOAUTH")
}
