package wire_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// A subject is a server that runs the scripts in a comparison with the model.
type subject interface {
	// do executes commands in their order, and returns the replies: a string, an int, a []any, an error, or nil.
	do(commands ...[]string) []any
	// published returns what was published since the last call, by scripts as well: the channels and messages.
	published() [][2]string
	// listen subscribes to the channel, or ends that.
	listen(channel string, on bool)
	// advance lets time pass.
	advance(d time.Duration)
	// exact reports whether time stands still by itself.
	exact() bool
}

// An embedded is miniredis without a connection and with a clock that stands still.
type embedded struct {
	m         *miniredis.Miniredis
	now       time.Time
	in        bytes.Buffer
	r         *bufio.Reader
	peer      *server.Peer
	flush     func() error
	messages  [][2]string
	listeners map[string]*miniredis.Subscriber
}

func newEmbedded(t testing.TB) *embedded {
	e := &embedded{m: miniredis.NewMiniRedis(), now: time.UnixMilli(1_700_000_000_000), listeners: make(map[string]*miniredis.Subscriber)}
	e.m.ClockTTL(true)
	e.m.SetTime(e.now)
	conn, err := e.m.Dial() // starts it
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	t.Cleanup(func() {
		for channel := range e.listeners {
			e.listen(channel, false)
		}
		e.m.Close()
	})
	e.m.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
		if command == "PUBLISH" {
			e.messages = append(e.messages, [2]string{args[0], args[1]})
		}
		return false
	})
	w := bufio.NewWriter(&e.in)
	e.peer, e.flush, e.r = server.NewPeer(w), w.Flush, bufio.NewReader(&e.in)
	return e
}

func (e *embedded) do(commands ...[]string) []any {
	replies := make([]any, len(commands))
	for i, c := range commands {
		e.m.Server().Dispatch(e.peer, c)
		_ = e.flush()
		replies[i] = readReply(e.r)
	}
	return replies
}

func (e *embedded) published() [][2]string {
	messages := e.messages
	e.messages = nil
	return messages
}

func (e *embedded) listen(channel string, on bool) {
	s := e.listeners[channel]
	switch {
	case on && s == nil:
		s = e.m.NewSubscriber()
		go func() {
			for range s.Messages() { // nothing is lost: see published
			}
		}()
		s.Subscribe(channel)
		e.listeners[channel] = s
	case !on && s != nil:
		s.Unsubscribe(channel)
		s.Close()
		delete(e.listeners, channel)
	}
}

func (e *embedded) advance(d time.Duration) {
	e.now = e.now.Add(d)
	e.m.SetTime(e.now)
}

func (e *embedded) exact() bool { return true }

// A process is a redis-server, whose messages a MONITOR shows. Time passes there by itself; to advance it the times of
// all keys are moved.
type process struct {
	t                         testing.TB
	commands, monitor, pubsub *line
	marks                     int
}

// A line is a connection.
type line struct {
	net.Conn
	r *bufio.Reader
}

func newProcess(t testing.TB) *process {
	addr := redistest.Standalone(t).Addr()
	dial := func() *line {
		conn, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(5*time.Minute)))
		return &line{conn, bufio.NewReaderSize(conn, 64<<10)}
	}
	p := &process{t: t, commands: dial(), monitor: dial(), pubsub: dial()}
	p.monitor.send([]string{"MONITOR"})
	require.Equal(t, "OK", readReply(p.monitor.r))
	return p
}

func (l *line) send(commands ...[]string) {
	var b bytes.Buffer
	for _, c := range commands {
		fmt.Fprintf(&b, "*%d\r\n", len(c))
		for _, word := range c {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	_, _ = l.Write(b.Bytes()) // readReply tells
}

func (p *process) do(commands ...[]string) []any {
	p.commands.send(commands...)
	replies := make([]any, len(commands))
	for i := range replies {
		replies[i] = readReply(p.commands.r)
	}
	return replies
}

func (p *process) published() (messages [][2]string) {
	p.marks++
	mark := "mark " + strconv.Itoa(p.marks)
	p.do([]string{"ECHO", mark})
	for {
		text, err := p.monitor.r.ReadString('\n')
		require.NoError(p.t, err)
		// +1700000000.123456 [0 lua] "publish" "channel" "message"
		_, text, _ = strings.Cut(strings.TrimSpace(text), "] ")
		var words []string
		for text != "" {
			quoted, err := strconv.QuotedPrefix(text)
			require.NoError(p.t, err, text)
			word, err := strconv.Unquote(quoted)
			require.NoError(p.t, err, text)
			words, text = append(words, word), strings.TrimPrefix(text[len(quoted):], " ")
		}
		switch {
		case len(words) == 3 && strings.EqualFold(words[0], "publish"):
			messages = append(messages, [2]string{words[1], words[2]})
		case len(words) == 2 && words[1] == mark:
			return messages
		}
	}
}

func (p *process) listen(channel string, on bool) {
	command := "unsubscribe"
	if on {
		command = "subscribe"
	}
	p.pubsub.send([]string{command, channel})
	for {
		if all, ok := readReply(p.pubsub.r).([]any); !ok || all[0] == command { // else a message
			return
		}
	}
}

// move is a script that lets time pass for all keys, and for the times in a semaphore.
const move = `
local d = tonumber(ARGV[1])
for _, key in ipairs(redis.call('keys', '*')) do
	local left = redis.call('pttl', key)
	if left >= 0 and left <= d then
		redis.call('del', key)
	elseif left > 0 then
		redis.call('pexpire', key, left - d)
	end
end
if redis.call('type', KEYS[1]).ok == 'zset' then
	for _, member in ipairs(redis.call('zrange', KEYS[1], 0, -1)) do
		redis.call('zincrby', KEYS[1], -d, member)
	end
end`

func (p *process) advance(d time.Duration) {
	require.Nil(p.t, p.do([]string{"EVAL", move, "1", modelLock, strconv.FormatInt(d.Milliseconds(), 10)})[0])
}

func (p *process) exact() bool { return false }

// readReply reads a reply of RESP2.
func readReply(r *bufio.Reader) any {
	text, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	text = strings.TrimSuffix(text, "\r\n")
	n, _ := strconv.Atoi(text[1:])
	switch text[0] {
	case '+':
		return text[1:]
	case '-':
		return fmt.Errorf("%s", text[1:])
	case ':':
		return n
	case '$':
		if n < 0 {
			return nil
		}
		b := make([]byte, n+2)
		for at := 0; at < len(b); {
			k, err := r.Read(b[at:])
			if err != nil {
				return err
			}
			at += k
		}
		return string(b[:n])
	case '*':
		if n < 0 {
			return nil
		}
		all := make([]any, n)
		for i := range all {
			all[i] = readReply(r)
		}
		return all
	}
	return fmt.Errorf("not a reply: %q", text)
}
