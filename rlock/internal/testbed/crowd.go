package testbed

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A Record finds out whether two critical sections ever overlapped, in two ways: by a counter
// that only the lock protects (lost additions, and the race detector), and by the times at
// which each section began and ended.
type Record struct {
	Workers sync.WaitGroup
	Counter int // protected by the lock under test

	Mu    sync.Mutex // protects following
	Spans []Span
}

type Span struct{ From, To time.Time }

// A way is one of the ways in which a caller runs a section under the lock.
type way func(ctx context.Context, lock Locker, section func()) error

var ways = []way{
	func(ctx context.Context, lock Locker, section func()) error {
		if err := lock.Lock(ctx); err != nil {
			return err
		}
		section()
		return lock.Unlock(ctx)
	},
	func(_ context.Context, lock Locker, section func()) error {
		ctx := context.Background() // the acquire is not sent by a goroutine of its own
		if err := lock.Lock(ctx); err != nil {
			return err
		}
		section()
		return lock.Unlock(ctx)
	},
	func(ctx context.Context, lock Locker, section func()) error { // nested
		if err := lock.Lock(ctx); err != nil {
			return err
		}
		if err := lock.LockFor(ctx, time.Hour); err != nil {
			return errors.Join(err, lock.Unlock(ctx))
		}
		section()
		return errors.Join(lock.Unlock(ctx), lock.Unlock(ctx))
	},
	func(ctx context.Context, lock Locker, section func()) error {
		return lock.Do(ctx, func(context.Context) error {
			section()
			return nil
		})
	},
	func(ctx context.Context, lock Locker, section func()) error {
		hold, err := lock.Acquire(ctx, rlock.WithLease(time.Hour))
		if err != nil {
			return err
		}
		section()
		return hold.Release(ctx)
	},
	func(ctx context.Context, lock Locker, section func()) error {
		for {
			taken, err := Try(ctx, lock, time.Millisecond, 0)
			if err != nil {
				return err
			}
			if taken {
				section()
				return lock.Unlock(ctx)
			}
		}
	},
}

// Work runs a section in each goroutine, once a round. A holder that was granted a fair lock
// by the queue has a lease of two seconds at first, and may lose the lock if the process is
// suspended for as long.
func (r *Record) Work(s *Site, lock Locker, goroutines, rounds int) {
	for g := range goroutines {
		r.Workers.Go(func() {
			var spans []Span
			section := func() {
				from := time.Now()
				r.Counter++
				spans = append(spans, Span{From: from, To: time.Now()})
			}
			tried, ok := lock.(*Trial)
			fair := ok && tried.kind.Strict
			for len(spans) < rounds {
				err := ways[(g+len(spans))%len(ways)](s.Ctx, lock, section)
				if claim := fair && errors.Is(err, rlock.ErrLost); !claim && !assert.NoError(s.T, err) {
					break
				}
			}
			r.Mu.Lock()
			defer r.Mu.Unlock()
			r.Spans = append(r.Spans, spans...)
		})
	}
}

// Check waits for the work, which had that many sections in all, and asserts that no two of
// them overlapped.
func (r *Record) Check(t *testing.T, sections int) {
	t.Helper()
	r.Workers.Wait()
	require.Equal(t, sections, len(r.Spans), "sections")
	assert.Equal(t, sections, r.Counter, "additions were lost")
	slices.SortFunc(r.Spans, func(a, b Span) int {
		return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To))
	})
	for i := 1; i < len(r.Spans); i++ {
		require.False(t, r.Spans[i].From.Before(r.Spans[i-1].To), "two sections overlap: %v and %v", r.Spans[i-1], r.Spans[i])
	}
}

// Rounds is n, or a sixth of it with -short or the race detector.
func Rounds(n int) int {
	if Fewer() || testing.Short() {
		return n / 6
	}
	return n
}

const Queue = "rlock_queue:{orders:42}"

// Strict turns off hand-offs, so that no waiter of the holder's client comes first.
var Strict = Handoff(-1, 0)

// A Line lists the holders of a fair lock, in order. Protected by the lock.
type Line struct {
	*World
	Order   []int
	joined  int
	Waiters sync.WaitGroup
}

// Join starts a waiter, known by its number, that takes the client's lock for a section and
// unlocks it. It returns when Redis has the waiter's ticket.
func (l *Line) Join(p *Client) {
	who := l.joined
	l.joined++
	lock, me := p.NewFairLock(Key), l.Caller()
	l.Waiters.Go(func() {
		if !assert.NoError(l.T, lock.Lock(me)) {
			return
		}
		l.Order = append(l.Order, who)
		time.Sleep(Section)
		assert.NoError(l.T, lock.Unlock(me))
	})
	time.Sleep(50 * time.Millisecond)
}

// InOrder waits for all and asserts that they held the lock in the order in which they
// joined.
func (l *Line) InOrder() {
	l.T.Helper()
	l.Waiters.Wait()
	want := make([]int, l.joined)
	for i := range want {
		want[i] = i
	}
	assert.Equal(l.T, want, l.Order)
	assert.Empty(l.T, l.Keys())
}

// Queued returns the tickets in the queue in Redis, the first one first, without the mark of
// a granted ticket.
func (w *World) Queued() (tickets []string) {
	members, err := w.ZMembers(Queue)
	if err != nil {
		return nil
	}
	for _, member := range members {
		if !strings.HasPrefix(member, "!") {
			tickets = append(tickets, member[1:]) // without its mode
		}
	}
	return tickets
}

// Waiting starts a wait of the client for the fair lock. It returns the channel of the
// result, once the ticket is in the queue.
func (w *World) Waiting(p *Client, me context.Context) <-chan error {
	w.T.Helper()
	before := len(w.Queued())
	result := Start(func() error { return p.NewFairLock(Key).Lock(me) })
	w.Eventually(func() bool { return len(w.Queued()) > before }, "the ticket is in the queue")
	return result
}

// Die ends the client's connections and refuses others.
func (p *Client) Die() {
	p.Net.Refuse()
	p.Net.Cut()
	synctest.Wait()
}

// A crowd is clients that lock and unlock one name until it ends.
type crowd struct {
	Record
	s    *Site
	stop context.CancelFunc
}

// sections returns the number of sections so far.
func (c *crowd) sections() int {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return len(c.Spans)
}

// GoesOn returns after that many more sections.
func (c *crowd) GoesOn(more int) {
	c.s.T.Helper()
	want := c.sections() + more
	require.Eventually(c.s.T, func() bool { return c.sections() >= want }, Hang, time.Millisecond)
}

// End stops the crowd and asserts that its queue is gone.
func (c *crowd) End() {
	c.s.T.Helper()
	c.stop()
	c.Workers.Wait()
	require.Eventually(c.s.T, func() bool {
		left, err := c.s.Do("EXISTS", Queue).AsInt64()
		return err == nil && left == 0
	}, Hang, time.Millisecond)
}

// NewCrowd starts so many clients, each with so many owners of the fair lock.
func (s *Site) NewCrowd(clients, each int, changes ...func(*rlock.Config)) *crowd {
	ctx, stop := context.WithCancel(s.Ctx)
	c := &crowd{s: s, stop: stop}
	for range clients {
		client := s.NewClient(changes...)
		for range each {
			c.Workers.Go(func() {
				for ctx.Err() == nil {
					h, err := client.NewFairLock(Key).Acquire(ctx)
					if err != nil {
						continue
					}
					from := time.Now()
					time.Sleep(time.Millisecond)
					to := time.Now()
					if !h.Valid() {
						to = from
					}
					c.Mu.Lock()
					c.Spans = append(c.Spans, Span{From: from, To: to})
					c.Mu.Unlock()
					_ = h.Release(ctx)
				}
			})
		}
	}
	return c
}

// NewGuest is a foreigner that Redis cannot count, since it does not listen.
func (w *World) NewGuest() *Foreigner {
	return &Foreigner{World: w, Channel: Channel, Holds: []string{ForeignOwner, "1"}, Redis: w.Outsider()}
}

func (f *Foreigner) Free() {
	assert.NoError(f.T, f.Eval(`redis.call('del', KEYS[1]); return redis.call('publish', ARGV[1], '0')`, f.Channel).Error())
}

const ForeignOwner = "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7"

// A Foreigner contends for the lock as a thread of Redisson does: it frees it after
// each section, and waits for a message.
type Foreigner struct {
	*World
	Channel  string
	Holds    []string // the lock's hash while it has it
	Redis    rueidis.Client
	Messages chan struct{}
	Sections int
}

func (w *World) NewForeigner(channel string, holds ...string) *Foreigner {
	f := &Foreigner{World: w, Channel: channel, Holds: holds, Redis: w.Outsider(), Messages: make(chan struct{}, 1)}
	ctx, leave := context.WithCancel(w.Ctx)
	subscriber := w.Outsider()
	left := Start(func() error {
		return subscriber.Receive(ctx, subscriber.B().Subscribe().Channel(channel).Build(), func(rueidis.PubSubMessage) {
			select {
			case f.Messages <- struct{}{}:
			default:
			}
		})
	})
	w.T.Cleanup(func() { leave(); <-left })
	synctest.Wait()
	return f
}

func (f *Foreigner) Eval(script string, args ...string) rueidis.RedisResult {
	return f.Redis.Do(f.Ctx, f.Redis.B().Eval().Script(script).Numkeys(1).Key(Key).Arg(args...).Build())
}

// tries reports whether the foreigner has found the lock free, and taken it.
func (f *Foreigner) tries() bool {
	got, err := f.Eval(`
		if redis.call('exists', KEYS[1]) == 1 then
			return 0
		end
		redis.call('hset', KEYS[1], unpack(ARGV))
		return redis.call('pexpire', KEYS[1], 30000)`, f.Holds...).AsInt64()
	assert.NoError(f.T, err)
	return got == 1
}

// Contend takes the lock again and again until then. It tries at a message, late by
// what lateness returns.
func (f *Foreigner) Contend(until time.Time, lateness func() time.Duration) {
	for time.Now().Before(until) {
		if f.tries() {
			time.Sleep(Section)
			f.Sections++
			f.Free()
		}
		select {
		case <-f.Messages:
			time.Sleep(lateness())
		case <-time.After(time.Until(until)):
		}
	}
}

// Crowd has so many goroutines of the client take the lock again and again until
// then, and returns how many sections they have when all is done.
func (p *Client) Crowd(goroutines int, w *World, until time.Time) (sections func() int) {
	var all sync.WaitGroup
	n := 0 // the lock protects it
	for range goroutines {
		lock, me := p.NewLock(Key), w.Caller()
		all.Go(func() {
			for time.Now().Before(until) {
				assert.NoError(w.T, lock.Lock(me))
				time.Sleep(Section)
				n++
				assert.NoError(w.T, lock.Unlock(me))
			}
		})
	}
	return func() int {
		all.Wait()
		return n
	}
}

// Punctual is the shortest time in which the events of one moment come before.
func Punctual() time.Duration { return time.Microsecond }

// Take takes the lock for the foreigner as soon as a try finds it free, with a millisecond
// between two tries, and returns how long that took.
func (f *Foreigner) Take() time.Duration {
	asked := time.Now()
	for !f.tries() {
		time.Sleep(time.Millisecond)
	}
	return time.Since(asked)
}

// Section is the length of the sections here: long enough for the mirror of a hand-off to be
// answered before the next one.
const Section = 2 * time.Millisecond

func Handoff(limit int, duration time.Duration) func(*rlock.Config) {
	return func(c *rlock.Config) { c.Advanced.HandoffLimit, c.Advanced.HandoffTime = limit, duration }
}
