package testbed

import (
	"context"
	"sync"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
)

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
