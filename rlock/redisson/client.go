package redisson

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Client makes synchronizers over the connections of an rlock client. It has no connections of
// its own. Its methods may be called concurrently.
type Client struct {
	shared *driver.Client
	prefix string

	mu    sync.Mutex       // guards the fields below; a mutex of the hub may be taken under it
	rooms map[string]*room // the rooms by channel

	keeping keeping
	turns   turns
}

// New returns a client over the connections of c. Make one for each c: of two, the later one gets
// all messages, and callers that wait in the other look every two seconds. It needs no Close. When
// c is closed, calls return [rlock.ErrClosed] and the contexts of the permits end; Redis keeps the
// permits until their leases end. New panics if c is nil.
func New(c *rlock.Client) *Client {
	shared, prefix := driver.ClientOf(c)
	return &Client{shared: shared, prefix: prefix, rooms: make(map[string]*room), keeping: keeping{held: make(map[permitID]*Permit)}}
}

// Semaphore returns the semaphore of that name. It sends no command.
func (c *Client) Semaphore(name string) *Semaphore {
	return &Semaphore{c.object(name, semaphoreChannel)}
}

// PermitSemaphore returns the semaphore of that name whose permits have leases. It sends no
// command.
func (c *Client) PermitSemaphore(name string) *PermitSemaphore {
	o := c.object(name, semaphoreChannel)
	return &PermitSemaphore{object: o, set: braced(o.key) + ":timeout"}
}

// CountDownLatch returns the latch of that name. It sends no command.
func (c *Client) CountDownLatch(name string) *CountDownLatch {
	return &CountDownLatch{c.object(name, latchChannel)}
}

// An object is one synchronizer.
type object struct {
	client  *Client
	name    string // the name without the prefix
	key     string
	channel string
	err     error // the error of a name that no synchronizer can have, or nil
	torn    error // the error of a name that cannot work in a Cluster, or nil
}

// braced returns the name as Redisson puts it into other names: in braces, unless it has an opening
// brace.
func braced(name string) string {
	if strings.Contains(name, "{") {
		return name
	}
	return "{" + name + "}"
}

// The beginnings of the names of channels.
const semaphores, latches = "redisson_sc:", "redisson_countdownlatch__channel__"

func semaphoreChannel(key string) string { return semaphores + braced(key) }
func latchChannel(key string) string     { return latches + "{" + key + "}" }

func (c *Client) object(name string, channel func(key string) string) object {
	o := object{client: c, name: name, key: c.prefix + name}
	o.channel = channel(o.key)
	if err := cmp.Or(wire.CheckLength(name), wire.CheckLength(o.key)); err != nil {
		o.err = fmt.Errorf("rlock: redisson: %w", err)
	}
	if wire.HashSlot(o.key) != wire.HashSlot(o.channel) {
		o.torn = fmt.Errorf("rlock: redisson %q: %w: its channel has another slot, so that Redisson cannot use the name in a Cluster: choose one without braces", o.key, rlock.ErrInvalidName)
	}
	return o
}

//go:embed scripts/*.lua
var files embed.FS

// The scripts. Each file begins with its KEYS, ARGV and replies.
var (
	semaphoreAcquire = script("number", "semaphore_acquire")
	semaphoreAdd     = script("semaphore_add")
	semaphoreDrain   = script("number", "semaphore_drain")
	semaphoreSet     = script("number", "semaphore_set")
	semaphoreAddIf   = script("semaphore_exists", "semaphore_add")
	semaphoreDelete  = script("number", "semaphore_delete")
	semaphoreExpire  = script("number", "semaphore_expire")
	permitsAcquire   = script("number", "permits", "permits_acquire")
	permitsRelease   = script("number", "permits", "permits_release")
	permitsUpdate    = script("number", "permits", "permits_update")
	permitsRead      = script("number", "permits", "permits_read")
	permitsSet       = script("number", "permits", "permits_set")
	permitsLease     = script("number", "permits", "permits_lease")
	permitsDelete    = script("number", "permits_delete")
	permitsExpire    = script("number", "permits_expire")
	latchSet         = script("number", "latch_set")
	latchDown        = script("latch_down")
	latchDelete      = script("number", "latch_delete")
)

func script(names ...string) *wire.Script {
	text := ""
	for _, name := range names {
		part, err := files.ReadFile("scripts/" + name + ".lua")
		if err != nil {
			panic(err)
		}
		text += string(part)
	}
	return wire.ScriptOf(text)
}

// byPublish stands in the arguments of a script for the command that notifies waiters: a lazy
// client knows this command only once it is connected.
const byPublish = "\x00publish"

// publishing returns the arguments with the command that notifies waiters in place of byPublish.
func publishing(r *wire.Redis, args []string) []string {
	i := slices.Index(args, byPublish)
	if i < 0 {
		return args
	}
	args = slices.Clone(args)
	if args[i] = "publish"; r.Sharded {
		args[i] = "spublish"
	}
	return args
}

// call executes a script with the key of the object before the keys given.
func (o *object) call(ctx context.Context, s *wire.Script, keys []string, args ...string) (rueidis.RedisMessage, fate, error) {
	return o.send(ctx, wire.Call{Script: s, Keys: append([]string{o.key}, keys...), Args: args}, true)
}

// send makes a call. If first, no call with the same id may still be executed, so that this call
// may use the direct connection.
func (o *object) send(ctx context.Context, call wire.Call, first bool) (m rueidis.RedisMessage, _ fate, _ error) {
	r := o.client.shared.Redis
	switch {
	case o.err != nil:
		return m, refused, o.err
	case o.client.shared.Closed.Load():
		return m, refused, o.named(rlock.ErrClosed)
	}
	if err := wire.Over(ctx); err != nil {
		return m, refused, o.named(err)
	}
	if err := r.Ready(ctx, nil); err != nil {
		return o.failed(err)
	}
	if o.torn != nil && r.InCluster() {
		return m, refused, o.torn
	}
	call.Args = publishing(r, call.Args)
	order := wire.Order{Call: call, Slot: r.SlotOf(o.key), First: first, At: time.Now()}
	m, err := wire.Promptly(ctx, r, order.Slot, func(within context.Context) (rueidis.RedisMessage, error) {
		if r.Ends() {
			within = context.Background() // a context that may end makes the call a few per cent slower
		}
		result, sent := r.Send(within, order)
		if sent.IsLate() {
			sent.GiveUp() // the caller learns that the outcome is unknown
		}
		return result.ToMessage()
	})
	switch {
	case err == nil || rueidis.IsRedisNil(err):
		return m, executed, nil
	case ctx.Err() != nil && !wire.Answered(err):
		return m, unknown, o.named(fmt.Errorf("%w: it may have been executed, or may still be: %w", rlock.ErrUnconfirmed, wire.Over(ctx)))
	default:
		return o.failed(err)
	}
}

// A fate says whether a command was executed.
type fate uint8

const (
	executed fate = iota
	notNow        // not executed, and another attempt may succeed
	refused       // not executed, and another attempt is of no use
	unknown       // perhaps executed, now or later
)

func (o *object) failed(err error) (m rueidis.RedisMessage, f fate, _ error) {
	switch diagnosis, explained := wire.Diagnose(err); {
	case wire.Released(err):
		return m, executed, o.named(fmt.Errorf("it is changed, but the waiters were not notified: %w", explained))
	case diagnosis == wire.NotNow:
		return m, notNow, o.named(explained)
	case diagnosis == wire.Never:
		return m, refused, o.named(explained)
	default:
		return m, unknown, o.named(fmt.Errorf("%w: it may have been executed, or may still be: %w", rlock.ErrUnconfirmed, explained))
	}
}

// repeat makes a call that takes effect once, however often it is sent. It repeats the call until
// Redis has executed or refused it, ctx ends, or the time is up. unsure is set if a command without
// an answer may still be executed.
func (o *object) repeat(ctx context.Context, within time.Duration, call func(ctx context.Context, first bool) (int64, fate, error)) (n int64, f fate, unsure bool, err error) {
	r := o.client.shared.Redis
	over := time.NewTimer(within)
	defer over.Stop()
	var lost error // the error of the last command without an answer
	for pause := wire.FirstRetry; ; pause = min(2*pause, wire.LastRetry) {
		n, f, err = call(ctx, lost == nil)
		switch {
		case f == executed:
			return n, f, lost != nil, err
		case f == unknown:
			lost = err
		case f == refused && lost == nil:
			return 0, f, false, err
		}
		rest := time.NewTimer(wire.Jitter(pause))
		select {
		case <-rest.C:
			if f != refused {
				continue
			}
		case <-over.C:
		case <-ctx.Done():
		case <-r.Done():
		}
		rest.Stop()
		if lost != nil {
			return 0, unknown, true, lost
		}
		return 0, f, false, err
	}
}

func (o *object) named(err error) error { return fmt.Errorf("rlock: redisson %q: %w", o.key, err) }

// number executes a script that replies with an integer.
func (o *object) number(ctx context.Context, s *wire.Script, keys []string, args ...string) (n int64, err error) {
	reply, _, err := o.call(ctx, s, keys, args...)
	if err != nil {
		return 0, err
	}
	if n, err = reply.AsInt64(); err != nil {
		return 0, o.named(err)
	}
	return n, o.believe(ctx, n)
}

// believe returns an error if changed is 0 and the server is a replica: its data may be old. A
// script that writes is refused there.
func (o *object) believe(ctx context.Context, changed int64) error {
	if changed > 0 {
		return nil
	}
	if err := o.client.shared.Redis.AtPrimary(ctx); err != nil {
		return o.named(fmt.Errorf("%w: %w", rlock.ErrUnconfirmed, err))
	}
	return nil
}

// read reads the counter; 0 if there is none.
func (o *object) read(ctx context.Context) (n int64, f fate, err error) {
	r := o.client.shared.Redis
	switch {
	case o.err != nil:
		return 0, refused, o.err
	case o.client.shared.Closed.Load():
		return 0, refused, o.named(rlock.ErrClosed)
	}
	caller := ctx
	ctx, cancel := r.Within(ctx) // rueidis repeats the command until its context ends
	defer cancel()
	if err = r.Ready(ctx, nil); err == nil {
		n, err = wire.Promptly(ctx, r, r.SlotOf(o.key), func(ctx context.Context) (int64, error) {
			return r.Look(ctx, r.Client.B().Get().Key(o.key).Build()).AsInt64()
		})
	}
	switch diagnosis, _ := wire.Diagnose(err); {
	case err == nil || rueidis.IsRedisNil(err):
		return n, executed, nil
	case isNoNumber(err):
		return 0, refused, o.named(errNoNumber)
	case diagnosis == wire.Never:
		f = refused
	default:
		f = notNow
	}
	return 0, f, o.named(wire.ExplainTo(caller, err))
}

// errNoNumber is the error of a synchronizer whose key has a text that is not a number.
var errNoNumber = fmt.Errorf("%w: it is no number", rlock.ErrWrongType)

func isNoNumber(err error) bool {
	return errors.Is(err, strconv.ErrSyntax) || errors.Is(err, strconv.ErrRange)
}
