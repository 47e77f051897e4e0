package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
)

// ofSentinel is a primary with two replicas and three sentinels. The primary is stopped until another is in its place, and
// awakes as a second primary: for up to ten seconds it takes the writes of clients that have not heard, and loses them.
// The next one is killed.
type ofSentinel struct {
	test   redistest.Program
	server *redistest.Server
}

func (s *ofSentinel) open() (place, error) {
	err := redistest.Attempt(func() { s.server = redistest.Sentinel(&s.test) })
	if err != nil {
		return place{}, err
	}
	return s.way(0)
}

func (s *ofSentinel) way(int) (place, error) {
	options := s.server.Options()
	return place{Addrs: options.InitAddress, Set: options.Sentinel.MasterSet}, nil
}

// promotion is how long the sentinels may take for a failover.
const promotion = 30 * time.Second

func (s *ofSentinel) fault(ctx context.Context, r *run, n int) string {
	wait(ctx, r.lease)
	what := "stops of the primary"
	err := redistest.Attempt(func() {
		old := s.server.Primary("")
		if n%2 == 0 {
			what = "kills of the primary"
			old.Stop()
			s.await(ctx, old)
			old.Start()
		} else {
			old.Pause()
			s.await(ctx, old)
			old.Resume()
		}
		s.server.Start() // both replicas are in sync
	})
	r.check(err)
	return what
}

// await returns when the sentinels name another primary.
func (s *ofSentinel) await(ctx context.Context, old *redistest.Server) {
	for until := time.Now().Add(promotion); s.server.Primary("").Addr() == old.Addr() && ctx.Err() == nil; wait(ctx, 20*time.Millisecond) {
		if time.Now().After(until) {
			s.test.Fatal(errors.New("faults: the sentinels promote no replica"))
		}
	}
}

func (s *ofSentinel) close() { s.test.Close() }
