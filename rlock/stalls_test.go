package rlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// longStall is how long a server may let a PING wait. Beyond that a lease, or the two seconds
// of a claim, may end rightly in a test that expects it to be kept.
const longStall = 200 * time.Millisecond

// stalls are the times at which a real server, or this process, had no processor.
type stalls struct {
	mu    sync.Mutex // protects following
	asked time.Time  // when the PING that is not answered was due
	until time.Time  // the end of the last long stall
}

// observeStalls sends the server a PING every few milliseconds until the test ends.
func observeStalls(t *testing.T, server rueidis.Client) *stalls {
	s := &stalls{asked: time.Now()}
	ctx, cancel := context.WithCancel(context.Background())
	var observing sync.WaitGroup
	observing.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
			server.Do(ctx, server.B().Ping().Build())
			s.answered()
		}
	})
	t.Cleanup(func() {
		cancel()
		observing.Wait()
	})
	return s
}

func (s *stalls) answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.asked) > longStall {
		s.until = now
	}
	s.asked = now
}

// since reports whether a part of a long stall was after that time.
func (s *stalls) since(begin time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until.After(begin) || time.Since(s.asked) > longStall
}
