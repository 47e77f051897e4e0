package load

import (
	"context"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/torture/report"
	"github.com/go-rlock/rlock/internal/torture/stage"
	"github.com/go-rlock/rlock/internal/torture/worker"
	"github.com/go-rlock/rlock/rlock"
)

const (
	// lease is that of the clients: long, so that no lock is lost on a busy machine.
	lease = 30 * time.Second
	// limit is how long everything but the mixed load may take.
	limit = 10 * time.Minute
	// linger is how long a subscription may outlive its use.
	linger = 20 * time.Second
)

// Size is the amount of load.
type Size struct {
	Waiters   int           // for one lock
	Locks     int           // with a waiter each
	Processes int           // of the mixed load
	Workers   int           // goroutines of each
	Mixed     time.Duration // how long it lasts
}

// Run puts the load on a server, which is empty and used by nothing else. say reports each
// part as it begins.
func Run(s *stage.Stage, size Size, seed uint64, say func(string, ...any)) ([]*report.Load, error) {
	var all []*report.Load
	for _, part := range []func() (*report.Load, error){
		func() (*report.Load, error) { return crowd(s, size.Waiters) },
		func() (*report.Load, error) { return locks(s, size.Locks) },
		func() (*report.Load, error) { return mixed(s, size, seed, say) },
	} {
		l, err := part()
		if err != nil {
			return all, err
		}
		say("%s: %s", l.What, l.Outcome())
		all = append(all, l)
	}
	return all, nil
}

// within runs a part with clients of its own, and measures memory and goroutines when they
// are at rest.
func within(s *stage.Stage, l *report.Load, n int, run func(context.Context, []*rlock.Client) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var clients []*rlock.Client
	defer func() {
		for _, c := range clients {
			_ = c.Close() // a second time if all went well
		}
	}()
	for range n {
		client, err := rlock.New(worker.Config(s.Address(), lease))
		if err != nil {
			return fmt.Errorf("load: %w", err)
		}
		clients = append(clients, client)
	}
	l.Look() // with the clients, before they are used
	began := time.Now()
	if err := run(ctx, clients); err != nil {
		return fmt.Errorf("load: %s: %w", l.What, err)
	}
	l.Took = time.Since(began)
	quiet(s)
	l.Look()
	for _, c := range clients {
		if err := c.Close(); err != nil {
			return fmt.Errorf("load: %s: %w", l.What, err)
		}
	}
	return nil
}

// quiet waits until no channel has subscribers.
func quiet(s *stage.Stage) {
	for begin := time.Now(); time.Since(begin) < linger; time.Sleep(20 * time.Millisecond) {
		if channels, err := s.Channels(); err == nil && len(channels) == 0 {
			return
		}
	}
}
