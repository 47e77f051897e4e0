package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// An opening is the way of a client to its first connection, if it was made by [OpenLater]. Until it is open the fields of a
// Redis that the server decides are not set, and only the opening's goroutine may touch them: the client of rueidis, its
// mode, the family of pub/sub. So commands are sent after [Redis.Ready], and InCluster and Connected are false before.
type opening struct {
	open    atomic.Bool            // set once, after those fields
	failed  atomic.Pointer[absent] // why the last attempt has failed
	tried   chan struct{}          // closed after the first attempt
	settled chan struct{}          // closed once the client is open
	ended   chan struct{}          // closed when no attempt follows
}

// An absent is why there is no connection to the server, or why the one that there is cannot be used. Nothing was sent for a
// lock.
type absent struct {
	fault Fault
	err   error
}

func (a *absent) Error() string { return a.err.Error() }
func (a *absent) Unwrap() error { return a.err }

// MayOpen reports whether the error is one of [Open] that waiting may cure.
func MayOpen(err error) bool {
	a := (*absent)(nil)
	return errors.As(err, &a) && a.fault != Never
}

// refusal is the error of a server that New cannot use: waiting does not cure a missing feature, a wrong config or
// a missing right.
func refusal(err error) *absent {
	f := NotNow
	if errors.Is(err, ErrInvalidConfig) || errors.Is(err, ErrUnsupported) || errors.Is(err, ErrNoPermission) {
		f = Never
	}
	return &absent{f, err}
}

// The first and the longest pause between two attempts to open a client.
const firstOpenPause, lastOpenPause = FirstRetry, time.Second

// OpenLater returns a Redis that is not connected, and does not try to be before [Redis.Connect].
func OpenLater(o Options) *Redis {
	r := newRedis(o)
	r.opening = &opening{tried: make(chan struct{}), settled: make(chan struct{}), ended: make(chan struct{})}
	r.Nodes = newNodes(r)
	return r
}

// Connect opens a Redis that [OpenLater] has returned, for the client with that id, in a goroutine that Close waits for. It
// calls told after each attempt, with its error: nil after the last, before any command is sent. For any other Redis it does
// nothing.
func (r *Redis) Connect(id string, told func(error)) {
	o := r.opening
	if o == nil {
		return
	}
	if !r.background.start(func() { r.connect(id, told) }) {
		close(o.ended)
	}
}

func (r *Redis) connect(id string, told func(error)) {
	o := r.opening
	defer close(o.ended)
	for pause := firstOpenPause; ; pause = min(2*pause, lastOpenPause) {
		err := r.open(id, r.stoppable())
		if err == nil {
			told(nil)
			o.open.Store(true)
			close(o.settled)
			r.Nodes.Refresh(time.Now(), false)
		} else {
			o.failed.Store(err)
		}
		select {
		case <-o.tried:
		default:
			close(o.tried)
		}
		if err == nil {
			return
		}
		told(err)
		select {
		case <-time.After(Jitter(pause)):
		case <-r.ctx.Done():
			return
		}
	}
}

// stoppable returns the options, with dials that end with the client.
func (r *Redis) stoppable() Options {
	o := r.options
	dial := dialOf(o.Redis)
	o.Redis.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(r.ctx, cancel)()
		return dial(ctx, address, dialer, config)
	}
	return o
}

// isOpen reports whether the client has been connected.
func (r *Redis) isOpen() bool { return r.opening == nil || r.opening.open.Load() }

// IsLate reports whether the client was made by [OpenLater]: of any other Ready returns nil.
func (r *Redis) IsLate() bool { return r.opening != nil }

// Ready returns why no command about the keys can be sent, nil if it can. It waits for the first attempt to connect, or until
// ctx ends. Keys that were made while the mode of the server was not known may be none that a Cluster can have.
func (r *Redis) Ready(ctx context.Context, k *Keys) error {
	switch o := r.opening; {
	case o == nil:
		return nil
	case o.open.Load():
		if k != nil && k.torn && r.cluster {
			return &absent{Never, k.tornError()}
		}
		return nil
	default:
		select {
		case <-o.tried:
		case <-ctx.Done():
		}
	}
	switch failed := r.opening.failed.Load(); {
	case r.isOpen():
		return r.Ready(ctx, k)
	case failed == nil:
		return &absent{NotNow, ErrNoAnswer}
	default:
		return failed
	}
}

// Await is Ready for those who only look: it waits until the client is connected, for as long as an answer may take, unless
// the server cannot be used.
func (r *Redis) Await(ctx context.Context, k *Keys) error {
	if r.opening == nil {
		return nil
	}
	within, cancel := r.Within(ctx)
	defer cancel()
	for retry := FirstRetry; ; retry = min(2*retry, LastRetry) {
		err := r.Ready(within, k)
		switch {
		case err == nil || !MayOpen(err):
			return err
		case r.Stopped():
			return ErrClosed
		case ctx.Err() != nil:
			return TimeUp(ctx, err)
		case within.Err() != nil:
			return err
		}
		select {
		case <-r.opening.settled:
		case <-time.After(retry): // the server may have refused
		case <-within.Done():
		case <-r.Done():
		}
	}
}

// HashSlot returns the slot of a key in a Cluster: CRC-16 (XMODEM) of its tag, as the Cluster specification says. The builder
// of rueidis, which routes by the same number, is not there before a connection.
func HashSlot(key string) (slot uint16) {
	tag := tagOf(key)
	for i := range len(tag) {
		slot ^= uint16(tag[i]) << 8
		for range 8 {
			high := slot & 0x8000
			if slot <<= 1; high != 0 {
				slot ^= 0x1021
			}
		}
	}
	return slot % slots
}
