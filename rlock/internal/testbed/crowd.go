package testbed

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/require"
)

// A crowd is clients that take a fair lock again and again.
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
