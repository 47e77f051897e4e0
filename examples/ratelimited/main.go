// Ratelimited is a fleet of four processes with ten workers each, which together may have
// ten connections open to a partner. Each worker takes a permit of a semaphore for a call. The
// partner would refuse an eleventh connection.
//
//	go run ./examples/ratelimited
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/examples/internal/embedded"
	"github.com/go-rlock/rlock/rlock"
)

const (
	processes   = 4
	workers     = 10 // in each process
	connections = 10 // that the partner allows, over all processes
	calls       = 20 // of each worker
)

// A partner refuses more connections than it allows.
type partner struct{ open, most, calls atomic.Int64 }

func (p *partner) call(ctx context.Context) error {
	open := p.open.Add(1)
	defer p.open.Add(-1)
	if open > connections {
		return errors.New("too many connections")
	}
	for most := p.most.Load(); open > most && !p.most.CompareAndSwap(most, open); most = p.most.Load() {
	}
	p.calls.Add(1)
	select {
	case <-time.After(2 * time.Millisecond):
	case <-ctx.Done(): // the permit is lost: hang up
	}
	return ctx.Err()
}

func main() { embedded.Main("ratelimited", run) }

func run(ctx context.Context, options rueidis.ClientOption) error {
	var (
		fleet  sync.WaitGroup
		server partner
		failed = make(chan error, processes*workers)
		name   = fmt.Sprint("example:partner:", time.Now().UnixNano())
	)
	for range processes {
		client, err := rlock.New(rlock.Config{Redis: options})
		if err != nil {
			return err
		}
		defer client.Close()
		permits := client.NewSemaphore(name, connections)
		for range workers {
			fleet.Go(func() {
				for range calls {
					if err := permits.Do(ctx, server.call); err != nil {
						failed <- err
						return
					}
				}
			})
		}
	}
	fleet.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	if most := server.most.Load(); most > connections || most < connections/2 {
		return fmt.Errorf("%d connections were open at once, of %d", most, connections)
	}
	fmt.Printf("%d workers made %d calls over at most %d connections\n", processes*workers, server.calls.Load(), connections)
	return nil
}
