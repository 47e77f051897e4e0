package pubsub

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// ErrClosed is the error of [Subscription.Refused] once the hub is closed: no more wakes come.
var ErrClosed = errors.New("pubsub: hub closed")

// defaultLinger bridges the pauses of a contended channel: a channel that was needed a moment ago
// is usually needed again soon.
const defaultLinger = 5 * time.Second

// Config configures a [Hub].
type Config struct {
	// Client is the client whose server the hub subscribes at. The hub opens connections of its own
	// through it and never closes it; close the hub first.
	//
	// The client's pings find a connection that died in silence, after at most twice its
	// Dialer.KeepAlive plus ConnWriteTimeout (rueidis defaults: 12 s). Without a Client the
	// channels wait for [Hub.Open].
	Client rueidis.Client

	// Sharded subscribes with SSUBSCRIBE, for messages sent with SPUBLISH. In a Cluster each
	// channel is then subscribed at the primary of its slot. Needs Redis or Valkey 7. Defaults to
	// false.
	Sharded bool

	// Linger is the time for which a channel stays confirmed after its last Subscription was
	// closed, and a connection without channels stays open. The server keeps a subscription that is
	// no longer needed until its connection ends: after ten times Linger, or sooner if there are
	// many; see the package comment. Zero means the default, a negative Linger no time at all.
	// Defaults to 5 s.
	Linger time.Duration

	// Logger gets a line for each lost connection (Warn), for the connection that works in its
	// place (Info), and for the first refused channel (Warn). While the server ends the connections
	// that channels need, it gets at most one line a minute (Warn). Defaults to slog.Default().
	Logger *slog.Logger
}

// A Hub shares one server-side subscription per channel among any number of [Subscription]s. Its
// methods may be called concurrently. All but Close may be called under a mutex of the caller: they
// do not wait for the network.
type Hub struct {
	linger time.Duration
	log    *slog.Logger

	// Open sets these fields, holding mu, before the first link is made. They do not change
	// afterwards.
	client  rueidis.Client // the client; nil before Open
	sharded bool
	cluster bool

	// ctx ends with the hub. Every command runs under it, so that Close waits for no reply.
	ctx         context.Context
	stop        context.CancelFunc
	running     sync.WaitGroup // the links' goroutines
	warnRefused sync.Once

	// mu guards the fields below, and the fields of channel, link and Subscription that name it. It
	// is never held across a call to Redis: the connections' readers take it for each message.
	mu       sync.Mutex
	channels map[string]*channel // all channels by name; nil once the hub is closed
	links    map[string]*link    // all links by address; only the link "" if the hub is not routed
	owners   map[uint16]string   // the addresses of nodes by slot, as MOVED replies have named them

	warnedBarred time.Time // the time of the last warning that all channels of a link are barred
}

// New returns a hub. It does nothing until the first Listen.
func New(cfg Config) *Hub {
	if cfg.Linger == 0 {
		cfg.Linger = defaultLinger
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	h := &Hub{
		linger:   max(cfg.Linger, 0),
		log:      cfg.Logger,
		channels: make(map[string]*channel),
		links:    make(map[string]*link),
		owners:   make(map[uint16]string),
	}
	h.ctx, h.stop = context.WithCancel(context.Background())
	if cfg.Client != nil {
		h.Open(cfg.Client, cfg.Sharded)
	}
	return h
}

// Open sets Client and Sharded of a hub that was made without them, and subscribes to the channels
// that wait for it. It is called once.
func (h *Hub) Open(client rueidis.Client, sharded bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.client, h.sharded, h.cluster = client, sharded, client.Mode() == rueidis.ClientModeCluster
	for _, ch := range h.channels {
		h.routeLocked(ch, "")
	}
}

// Listen subscribes to a channel, and gives each of its messages to hear. It neither blocks nor
// fails: the server's answer becomes known through [Subscription.C] and [Subscription.Refused]. On
// a closed hub the subscription is refused with [ErrClosed]. The caller must Close the
// subscription. After the last Close, as long as the server counts a subscriber, the hear of the
// last Listen gets the messages.
//
// hear runs on the connection's reader. It may call the hub and take a mutex under which the hub is
// called, but it must not wait: all messages wait behind it. While one connection replaces another,
// both may call hear at the same time.
func (h *Hub) Listen(channel string, hear func(message string)) *Subscription {
	return h.listen(channel, false, hear, nil)
}

// ListenConfirmed is Listen for a waiter that is called and gets no wakes: in place of each wake
// confirmed is called, with a mutex of the hub held. It must not wait, nor call the hub.
func (h *Hub) ListenConfirmed(channel string, hear func(message string), confirmed func()) *Subscription {
	return h.listen(channel, false, hear, confirmed)
}

// ListenPlain is Listen for messages that are sent with PUBLISH, whatever [Config].Sharded says,
// and for which no caller waits: if the server refuses the channel, the log gets an Info, not a
// Warn. A name is either plain or not: on a hub that is Sharded, no other method may be called with
// the name of a plain channel.
func (h *Hub) ListenPlain(channel string, hear func(message string)) *Subscription {
	return h.listen(channel, true, hear, nil)
}

func (h *Hub) listen(channel string, plain bool, hear func(message string), confirmed func()) *Subscription {
	s := &Subscription{hub: h, c: make(chan struct{}, 1), hear: hear, confirmed: confirmed}
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := h.channelLocked(channel, plain)
	ch.joinLocked(s)
	ch.hear = hear
	return s
}

// Confirmed reports whether this hub is subscribed to the channel right now and the server counts
// it, so that PUBSUB NUMSUB (SHARDNUMSUB) answers at least 1. A channel that lingers is confirmed.
// Confirmed returns false if it is not certain: always on a hub without Sharded in a Cluster, where
// a node counts only the subscribers that are connected to the node.
func (h *Hub) Confirmed(channel string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := h.channels[channel]
	return ch != nil && ch.counted && !ch.leftLocked(time.Now())
}

// Close ends all subscriptions and connections, and wakes and refuses every [Subscription] with
// [ErrClosed]. When it returns no goroutine of the hub is left. It does not wait for replies of a
// server, but for a connection that is being opened: Dialer.Timeout and ConnWriteTimeout of the
// client bound this. Closing again is harmless.
func (h *Hub) Close() {
	h.mu.Lock()
	for _, ch := range h.channels {
		ch.refused = ErrClosed
		ch.wakeLocked()
	}
	h.channels = nil
	h.stop()
	h.mu.Unlock()
	h.running.Wait()
}

// channelLocked returns the channel of that name. If there is none, it makes one and asks the
// server for it. Needs mu.
func (h *Hub) channelLocked(name string, plain bool) *channel {
	if ch := h.channels[name]; ch != nil {
		return ch
	}
	ch := &channel{name: name, plain: plain}
	if h.channels == nil {
		ch.refused = ErrClosed
		return ch
	}
	h.channels[name] = ch
	h.routeLocked(ch, "")
	return ch
}

// forgetLocked drops a channel without subscribers. Needs mu.
func (h *Hub) forgetLocked(ch *channel) {
	delete(h.channels, ch.name)
	ch.detachLocked()
}
