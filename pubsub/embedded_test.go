package pubsub_test

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/pubsub"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// world is a hub with an embedded server behind a network that can fail, all in virtual time.
type world struct {
	*miniredis.Miniredis
	client rueidis.Client
	hub    *pubsub.Hub
	net    *network.Network
	open   atomic.Int64 // connections that the client has not closed
	dialed atomic.Int64 // connections that were opened
	full   atomic.Bool  // the server ends each new connection

	mu       sync.Mutex                                 // protects the following
	commands []string                                   // all commands that the server received
	reply    func(command string, args []string) string // see answer
}

// counted is a connection that decrements the count of open ones when it closes.
type counted struct {
	net.Conn
	closed func()
}

func (c counted) Close() error {
	c.closed()
	return c.Conn.Close()
}

func bubble(t *testing.T, cfg pubsub.Config, run func(t *testing.T, w *world)) {
	redistest.WithoutServer(t)
	synctest.Test(t, func(t *testing.T) {
		w := &world{Miniredis: miniredis.NewMiniRedis()}
		w.ClockTTL(true)
		t.Cleanup(w.Miniredis.Close)
		w.net = network.New(w.Dial)
		t.Cleanup(w.net.Close)
		var err error
		w.client, err = rueidis.NewClient(w.options())
		require.NoError(t, err)
		t.Cleanup(w.client.Close)
		w.Server().SetPreHook(w.intercept)
		cfg.Client = w.client
		w.hub = pubsub.New(cfg)
		t.Cleanup(w.hub.Close)
		run(t, w)
	})
}

func (w *world) options() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress:       []string{"127.0.0.1:6379"},
		ForceSingleClient: true,
		DisableCache:      true,
		AlwaysPipelining:  true,
		PipelineMultiplex: -1,
		ConnWriteTimeout:  2 * time.Second,
		Dialer:            net.Dialer{KeepAlive: time.Second},
		DialCtxFn:         w.dial,
	}
}

func (w *world) dial(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	c, err := w.net.Dial(ctx, addr, dialer, config)
	if err != nil {
		return nil, err
	}
	if w.full.Load() {
		_ = c.Close()
		here, there := net.Pipe()
		go func() {
			_, _ = there.Read(make([]byte, 1<<10))
			_ = there.Close()
		}()
		c = here
	}
	w.open.Add(1)
	w.dialed.Add(1)
	return counted{c, sync.OnceFunc(func() { w.open.Add(-1) })}, nil
}

func (w *world) intercept(p *server.Peer, command string, args ...string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.commands = append(w.commands, strings.Join(append([]string{command}, args...), " "))
	if w.reply != nil {
		if text := w.reply(command, args); text != "" {
			p.WriteError(text)
			return true
		}
	}
	return false
}

// answer makes the server answer a command with the error that reply returns, if any.
func (w *world) answer(reply func(command string, args []string) string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reply = reply
}

// refuse makes the server answer a command with the error, every command if the name is "".
func (w *world) refuse(name, text string) {
	w.answer(func(command string, _ []string) string {
		if name == "" || command == name {
			return text
		}
		return ""
	})
}

// sent returns the commands of that name that the server received.
func (w *world) sent(name string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.commands), func(c string) bool {
		return !strings.HasPrefix(c, name+" ")
	})
}

func (w *world) subscribers(channel string) int {
	return w.PubSubNumSub(channel)[channel]
}

// A waiter listens to a channel, and is woken by each message as well.
type waiter struct {
	*pubsub.Subscription
	heard chan struct{}
}

// wait returns a waiter. It is woken at once if there is nothing to wait for.
func wait(hub *pubsub.Hub, channel string) *waiter {
	w := &waiter{heard: make(chan struct{}, 1)}
	wake := func(string) {
		select {
		case w.heard <- struct{}{}:
		default:
		}
	}
	w.Subscription = hub.Listen(channel, wake)
	if w.Confirmed() || w.Refused() != nil {
		wake("")
	}
	return w
}

// A wakeable is a waiter or a subscription.
type wakeable interface{ C() <-chan struct{} }

// wakes returns where s is woken; heard is nil for one that is not woken by messages.
func wakes(s wakeable) (confirmed, heard <-chan struct{}) {
	if w, ok := s.(*waiter); ok {
		heard = w.heard
	}
	return s.C(), heard
}

// awaitWake fails the test if one of them is not woken. The limit ends a hang only. Several wakes
// may be one.
func awaitWake(t testing.TB, all ...wakeable) {
	t.Helper()
	timer := time.NewTimer(redistest.Hang)
	defer timer.Stop()
	for _, s := range all {
		confirmed, heard := wakes(s)
		select {
		case <-confirmed:
		case <-heard:
		case <-timer.C:
			require.FailNow(t, "no wake")
		}
		drain(s)
	}
}

// woken returns a waiter that was woken by the confirmation.
func woken(t testing.TB, hub *pubsub.Hub, channel string) *waiter {
	t.Helper()
	s := wait(hub, channel)
	awaitWake(t, s)
	return s
}

// isWoken takes the wake, if there is one once all goroutines of the bubble wait.
func isWoken(s wakeable) bool {
	synctest.Wait()
	return drain(s)
}

// drain takes the wake if there is one.
func drain(s wakeable) (woken bool) {
	confirmed, heard := wakes(s)
	for {
		select {
		case <-confirmed:
		case <-heard:
		default:
			return woken
		}
		woken = true
	}
}
