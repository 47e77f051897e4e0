package testbed

import (
	"context"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
