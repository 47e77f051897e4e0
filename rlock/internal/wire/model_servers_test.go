package wire_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/inmemory"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A subject is a server that runs the scripts in a comparison with the model.
type subject interface {
	// do executes commands in their order, and returns the replies: a string, an int, a []any, an
	// error, or nil.
	do(commands ...[]string) []any
	// published returns the messages published since the last call, by scripts as well, with their
	// channels.
	published() [][2]string
	// listen subscribes a connection of that name to the channel, or ends that.
	listen(name, channel string, on bool)
	// advance lets time pass for a lock.
	advance(d time.Duration, k *wire.Keys)
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
	refused   string // the name of a command that scripts are refused, "" for none
	full      bool   // commands that need memory are refused, but to a script that has written
	wrote     bool   // by the script that runs
}

var (
	needMemory = []string{"HSET", "HINCRBY", "SET", "ZADD", "ZINCRBY", "INCRBY", "LPUSH", "RPUSH"}
	onlyWrite  = []string{"DEL", "HDEL", "ZREM", "LREM", "PEXPIRE", "PERSIST"}
)

func newEmbedded(t testing.TB) *embedded {
	e := &embedded{m: miniredis.NewMiniRedis(), now: time.UnixMilli(1_700_000_000_000), listeners: make(map[string]*miniredis.Subscriber)}
	e.m.ClockTTL(true)
	e.m.SetTime(e.now)
	conn, err := e.m.Dial() // starts it
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	t.Cleanup(func() {
		for key := range e.listeners {
			name, channel, _ := strings.Cut(key, " ")
			e.listen(name, channel, false)
		}
		e.m.Close()
	})
	scripts := inmemory.NewScripts(e.m)
	e.m.Server().SetPreHook(func(peer *server.Peer, command string, args ...string) bool {
		if command == "PUBLISH" {
			e.messages = append(e.messages, [2]string{args[0], args[1]})
		}
		if command == e.refused && peer != e.peer {
			peer.WriteError("NOPERM no permissions to run the '" + command + "' command")
			return true
		}
		if peer == e.peer {
			e.wrote = false
		} else if e.full && !e.wrote && slices.Contains(needMemory, command) {
			peer.WriteError("OOM command not allowed when used memory > 'maxmemory'.")
			return true
		}
		e.wrote = e.wrote || slices.Contains(needMemory, command) || slices.Contains(onlyWrite, command)
		return scripts.Before(peer, command, args)
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

func (e *embedded) listen(name, channel string, on bool) {
	key := name + " " + channel
	s := e.listeners[key]
	switch {
	case on && s == nil:
		s = e.m.NewSubscriber()
		go func() {
			for range s.Messages() { // nothing is lost: see published
			}
		}()
		s.Subscribe(channel)
		e.listeners[key] = s
	case !on && s != nil:
		s.Unsubscribe(channel)
		s.Close()
		delete(e.listeners, key)
	}
}

func (e *embedded) advance(d time.Duration, _ *wire.Keys) {
	e.now = e.now.Add(d)
	e.m.SetTime(e.now)
}

func (e *embedded) exact() bool { return true }

// A process is a redis-server, whose messages a MONITOR shows. Time passes there by itself; to
// advance it the times of all keys are moved.
type process struct {
	t                 testing.TB
	server            *redistest.Server
	commands, monitor *line
	marks             int
	listeners         map[string]*line
}

// A line is a connection.
type line struct {
	net.Conn
	r *bufio.Reader
}

func newProcess(t testing.TB) *process {
	p := &process{t: t, server: redistest.Standalone(t), listeners: make(map[string]*line)}
	p.commands, p.monitor = p.dial(), p.dial()
	p.monitor.send([]string{"MONITOR"})
	require.Equal(t, "OK", readReply(p.monitor.r))
	return p
}

func (p *process) dial() *line {
	conn, err := net.Dial("tcp", p.server.Addr())
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(p.t, conn.SetDeadline(time.Now().Add(5*time.Minute)))
	return &line{conn, bufio.NewReaderSize(conn, 64<<10)}
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

func (p *process) listen(name, channel string, on bool) {
	l := p.listeners[name]
	if l == nil {
		l = p.dial()
		p.listeners[name] = l
	}
	command := "unsubscribe"
	if on {
		command = "subscribe"
	}
	l.send([]string{command, channel})
	for {
		if all, ok := readReply(l.r).([]any); !ok || all[0] == command { // else a message
			return
		}
	}
}

// move is a script that lets time pass for all keys and for the times in them: of the permits of a
// semaphore, of a hash of foreign clients, and of our place in Redisson's fair queue.
const move = `
local d, lock, foreign, fair = tonumber(ARGV[1]), unpack(KEYS)
for _, key in ipairs(redis.call('keys', '*')) do
	local left = redis.call('pttl', key)
	if left >= 0 and left <= d then
		redis.call('del', key)
	elseif left > 0 then
		redis.call('pexpire', key, left - d)
	end
end
for _, key in ipairs({lock, fair}) do
	for _, member in ipairs(redis.call('type', key).ok == 'zset' and redis.call('zrange', key, 0, -1) or {}) do
		if member ~= '*' then
			redis.call('zincrby', key, -d, member)
		end
	end
end
for _, field in ipairs({'b', 'e', 'u', 'n', 'q', 't', 's', 'f', 'w', 'h'}) do
	if redis.call('hexists', foreign, field) == 1 then
		redis.call('hincrby', foreign, field, -d)
	end
end`

func (p *process) advance(d time.Duration, k *wire.Keys) {
	words := []string{"EVAL", move, "3", modelLock, k.Foreign(), k.Key + ":none", strconv.FormatInt(d.Milliseconds(), 10)}
	if k.FairTimes() != "" {
		words[5] = k.FairTimes()
	}
	require.Nil(p.t, p.do(words)[0])
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
