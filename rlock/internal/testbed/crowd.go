package testbed

import (
	"context"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const Queue = "rlock_queue:{orders:42}"

// Die ends the client's connections and refuses new ones.
func (p *Client) Die() {
	p.Net.Refuse()
	p.Net.Cut()
	synctest.Wait()
}

// A crowd has clients that lock and unlock one name until it ends.
type crowd struct {
	s        *Site
	stop     context.CancelFunc
	workers  sync.WaitGroup
	sections atomic.Int64
}

// GoesOn returns after that many more sections.
func (c *crowd) GoesOn(more int64) {
	c.s.T.Helper()
	want := c.sections.Load() + more
	require.Eventually(c.s.T, func() bool { return c.sections.Load() >= want }, Hang, time.Millisecond)
}

// End stops the crowd and asserts that its queue is gone.
func (c *crowd) End() {
	c.s.T.Helper()
	c.stop()
	c.workers.Wait()
	require.Eventually(c.s.T, func() bool {
		left, err := c.s.Do("EXISTS", Queue).AsInt64()
		return err == nil && left == 0
	}, Hang, time.Millisecond)
}

// NewCrowd starts clients, each with a number of owners of the fair lock.
func (s *Site) NewCrowd(clients, each int, changes ...func(*rlock.Config)) *crowd {
	ctx, stop := context.WithCancel(s.Ctx)
	c := &crowd{s: s, stop: stop}
	for range clients {
		client := s.NewClient(changes...)
		for range each {
			c.workers.Go(func() {
				for ctx.Err() == nil {
					if h, err := client.NewFairLock(Key).Acquire(ctx); err == nil {
						time.Sleep(time.Millisecond)
						c.sections.Add(1)
						_ = h.Release(ctx)
					}
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

// A Foreigner contends for the lock as a thread of Redisson does: it frees the lock after each
// section, and waits for a message.
type Foreigner struct {
	*World
	Channel  string
	Holds    []string // the lock's hash while the foreigner holds it
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

// Contend takes the lock again and again until that time: it tries at a message, as late as
// lateness returns.
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

// NeverPauses has the foreigner take the lock again as soon as it has freed the lock and our
// listening clients have looked, until done says so.
func (f *Foreigner) NeverPauses(done func() bool) {
	for holds := true; !done(); holds = f.tries() {
		time.Sleep(Section)
		if holds {
			f.Free()
		}
		synctest.Wait()
	}
}

// Crowd has goroutines of the client take the lock again and again until that time, and returns a
// function that waits for them and returns the number of their sections.
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

// Punctual is the shortest lateness: the events of one moment come first.
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
// answered before the next hand-off.
const Section = 2 * time.Millisecond
