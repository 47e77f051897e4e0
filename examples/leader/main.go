// Leader has three replicas, of which one leads at a time. A replica waits for the lock,
// works until it loses the lock or is told to stop, and then waits again:
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

	"github.com/go-rlock/rlock/examples/internal/embedded"
	"github.com/go-rlock/rlock/rlock"
)

const (
	name  = "example:leader"
	lease = 2500 * time.Millisecond // a loss is noticed after a third of it at the latest
)

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal("leader: ", err)
	}
}

// A term is the time for which a replica leads.
type term struct {
	replica int
	end     error // nil while it leads
}

func run() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	options, stop, err := embedded.Redis()
	if err != nil {
		return err
	}
	defer stop()

	var (
		group   sync.WaitGroup
		terms   = make(chan term)
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
		group.Go(func() { campaign(all, client.NewLock(name), replica, terms) })
	}

	first, err := next(ctx, terms)
	if err != nil {
		return err
	}
	fmt.Printf("replica %d leads\n", first.replica)

	if _, err := clients[(first.replica+1)%3].NewLock(name).ForceUnlock(ctx); err != nil {
		return err
	}
	fmt.Println("an operator frees the lock")
	for range 2 { // the end of the first term and the begin of the second, in either order
		t, err := next(ctx, terms)
		switch {
		case err != nil:
			return err
		case t.end == nil:
			fmt.Printf("replica %d leads\n", t.replica)
		case t.replica != first.replica || !errors.Is(t.end, rlock.ErrLost):
			return fmt.Errorf("the term of replica %d ended with %w", t.replica, t.end)
		default:
			fmt.Printf("replica %d stops: the lock was lost\n", t.replica)
		}
	}
	return nil
}

func next(ctx context.Context, terms <-chan term) (term, error) {
	select {
	case t := <-terms:
		return t, nil
	case <-ctx.Done():
		return term{}, ctx.Err()
	}
}

// campaign leads whenever the replica has the lock, until ctx ends.
func campaign(ctx context.Context, lock *rlock.Lock, replica int, terms chan<- term) {
	tell := func(t term) {
		select {
		case terms <- t:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		var lost error
		err := lock.Do(ctx, func(ctx context.Context) error {
			tell(term{replica: replica})
			<-ctx.Done() // the work of a leader, which ends with the lock or with the process
			lost = context.Cause(ctx)
			return nil
		})
		switch {
		case errors.Is(err, rlock.ErrLost):
			tell(term{replica: replica, end: lost})
		case err != nil && ctx.Err() == nil:
			log.Print(err) // waiting does not cure it: the next attempt comes later
			time.Sleep(time.Second)
		}
	}
}
