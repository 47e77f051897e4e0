// Leader has three replicas, of which one leads at a time. A replica waits for its term, works
// until the term ends or it is told to stop, and then waits again:
//
//	go run ./examples/leader
//
// An operator frees the lock of the first leader by force. The leader is told of the loss
// by the end of its context, stops, and returns to the queue; another replica leads.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/examples/internal/embedded"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/elect"
)

const (
	name  = "example:leader"
	lease = 2500 * time.Millisecond // a loss is noticed after a third of it at the latest
)

func main() { embedded.Main("leader", run) }

// An event is the begin or the end of a term.
type event struct {
	replica int
	end     error // nil at the begin
}

func run(ctx context.Context, options rueidis.ClientOption) error {
	var (
		group   sync.WaitGroup
		events  = make(chan event)
		clients []*rlock.Client
	)
	for range 3 {
		client, err := rlock.New(rlock.Config{
			Redis: options, Lease: lease,
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		if err != nil {
			return err
		}
		defer client.Close()
		clients = append(clients, client)
	}
	all, finish := context.WithCancel(ctx)
	defer group.Wait() // before the clients are closed
	defer finish()
	for replica, client := range clients {
		group.Go(func() {
			if err := stand(all, client, replica, events); err != nil {
				log.Print(err)
			}
		})
	}

	first, err := next(ctx, events)
	if err != nil {
		return err
	}
	fmt.Printf("replica %d leads\n", first.replica)

	if _, err := clients[(first.replica+1)%3].NewLock(name).ForceUnlock(ctx); err != nil {
		return err
	}
	fmt.Println("an operator frees the lock")
	for range 2 { // the end of the first term and the begin of the second, in either order
		e, err := next(ctx, events)
		switch {
		case err != nil:
			return err
		case e.end == nil:
			fmt.Printf("replica %d leads\n", e.replica)
		case e.replica != first.replica || !errors.Is(e.end, rlock.ErrLost):
			return fmt.Errorf("the term of replica %d ended with %w", e.replica, e.end)
		default:
			fmt.Printf("replica %d stops: the lock was lost\n", e.replica)
		}
	}
	return nil
}

func next(ctx context.Context, events <-chan event) (event, error) {
	select {
	case e := <-events:
		return e, nil
	case <-ctx.Done():
		return event{}, ctx.Err()
	}
}

// stand leads whenever the replica has the lock, until ctx ends. In a program of one replica the
// option would be WithOverrun(func() { log.Fatal(...) }).
func stand(ctx context.Context, client *rlock.Client, replica int, events chan<- event) error {
	tell := func(e event) {
		select {
		case events <- e:
		case <-ctx.Done():
		}
	}
	text := elect.WithText(fmt.Sprintf("replica %d", replica))
	return elect.New(client, name, text).Run(ctx, func(work context.Context, _ *rlock.Hold) error {
		tell(event{replica: replica})
		<-work.Done() // the work of a leader, which ends with the term or with the process
		tell(event{replica, context.Cause(work)})
		return work.Err()
	})
}
