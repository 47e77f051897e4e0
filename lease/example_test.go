package lease_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-rlock/rlock/lease"
)

// A session lives on a server for a second, unless it is renewed.
type session struct {
	keeper *lease.Keeper
	entry  lease.Entry

	mu      sync.Mutex // guards the fields below
	until   time.Time  // the end of the lease, less its drift
	renewAt time.Time
	closed  bool
}

const sessionTTL = time.Second

func (s *session) Entry() *lease.Entry { return &s.entry }
func (s *session) Group() uint32       { return 0 } // there is one node

func (s *session) Due(now time.Time) (send bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !now.Before(s.until) {
		return false
	}
	if now.Before(s.renewAt) {
		s.keeper.Schedule(s, s.renewAt)
		return false
	}
	s.keeper.Schedule(s, s.until)
	return true
}

// renew stands for building the command, sending it and receiving its outcome.
func (s *session) renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed { // see Keeper.Stop
		return
	}
	now := time.Now() // before the command is sent
	s.until = now.Add(sessionTTL - lease.Drift(sessionTTL, time.Millisecond))
	s.renewAt = now.Add(sessionTTL / 100)
	s.keeper.Schedule(s, s.renewAt)
}

func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.keeper.Stop(s)
}

func ExampleKeeper() {
	renewed := make(chan bool, 100)
	keeper := lease.NewKeeper(lease.Config{
		Tick: time.Millisecond,
		Send: func(ctx context.Context, node uint32, batch []lease.Renewable) (reached bool) {
			for _, r := range batch {
				r.(*session).renew()
				renewed <- true
			}
			return true
		},
	})
	defer keeper.Close()

	s := &session{keeper: keeper}
	s.renew() // the first renewal; the keeper does the others
	for i := range 3 {
		<-renewed
		fmt.Println("renewals:", i+1)
	}
	s.close()
	fmt.Println("scheduled:", keeper.Len())
	// Output:
	// renewals: 1
	// renewals: 2
	// renewals: 3
	// scheduled: 0
}
