package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// An opening has the attempts to connect of a client that was made by [OpenLater]. Until open is
// set, only its goroutine may use the fields of a Redis that depend on the server: the client of
// rueidis, its mode, the family of pub/sub. So commands are sent after [Redis.Ready], and InCluster
// and connected return false before.
type opening struct {
	open    atomic.Bool            // set once the fields that depend on the server are set
	failed  atomic.Pointer[absent] // the error of the last attempt
	tried   chan struct{}          // closed after the first attempt
	settled chan struct{}          // closed once the client is connected
	ended   chan struct{}          // closed after the last attempt
}

// An absent is the error of a client that has no usable connection to the server. No command for a
// lock was sent.
type absent struct {
	diagnosis Diagnosis
	err       error
}

func (a *absent) Error() string { return a.err.Error() }
func (a *absent) Unwrap() error { return a.err }

// MayOpen reports whether [Open], which has failed with err, may succeed later.
func MayOpen(err error) bool {
	a := (*absent)(nil)
	return errors.As(err, &a) && a.diagnosis != Never
}

// refusal returns the error of a server that the client cannot use. Waiting does not cure a missing
// feature, a wrong config or a missing right.
func refusal(err error) *absent {
	d := NotNow
	if errors.Is(err, ErrInvalidConfig) || errors.Is(err, ErrUnsupported) || errors.Is(err, ErrNoPermission) {
		d = Never
	}
	return &absent{d, err}
}

// The first and the longest pause between two attempts to open a client.
const firstOpenPause, lastOpenPause = FirstRetry, time.Second

// OpenLater returns the Redis of the client with that id. It is not connected before
// [Redis.Connect].
func OpenLater(o Options, id string) *Redis {
	r := newRedis(o, id)
	r.opening = &opening{tried: make(chan struct{}), settled: make(chan struct{}), ended: make(chan struct{})}
	r.Nodes = newNodes(r)
	return r
}

// Connect connects a Redis that [OpenLater] returned, in a goroutine that Close waits for. It calls
// told with the error of each attempt, and with nil once it has succeeded, before any command is
// sent. For any other Redis it does nothing.
func (r *Redis) Connect(told func(error)) {
	o := r.opening
	if o == nil {
		return
	}
	if !r.background.startWork(func() { r.keepOpening(told) }) {
		close(o.ended)
	}
}

func (r *Redis) keepOpening(told func(error)) {
	o := r.opening
	defer close(o.ended)
	for pause := firstOpenPause; ; pause = min(2*pause, lastOpenPause) {
		options := r.options
		options.Redis.DialCtxFn = r.stoppable(dialOf(options.Redis))
		err := r.openClient(options)
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

// stoppable returns a dial that also ends when the client closes.
func (r *Redis) stoppable(dial dialFunc) dialFunc {
	return func(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(r.ctx, cancel)()
		return dial(ctx, address, dialer, config)
	}
}

// hasConnected reports whether the client has been connected.
func (r *Redis) hasConnected() bool { return r.opening == nil || r.opening.open.Load() }

// IsLazy reports whether the client was made by [OpenLater].
func (r *Redis) IsLazy() bool { return r.opening != nil }

// Ready returns an error if no command about the keys can be sent; k may be nil. It waits for the
// first attempt to connect, or until ctx ends. It returns an error for keys that were made before
// the mode of the server was known and cannot be in a Cluster.
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
	case r.hasConnected():
		return r.Ready(ctx, k)
	case failed == nil:
		return &absent{NotNow, ErrNoAnswer}
	default:
		return failed
	}
}

// AwaitConnection is Ready for commands that only read: it waits until the client is connected, for
// at most Patience.
func (r *Redis) AwaitConnection(ctx context.Context, k *Keys) error {
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
		case <-time.After(retry): // an attempt may have found meanwhile that the server cannot be used
		case <-within.Done():
		case <-r.Done():
		}
	}
}
