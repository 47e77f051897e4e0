package recipes

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/once/idempotent"
)

// probes adds the probes of a pod. While no lock can be taken, the pod gets no requests, and goes
// on.
func probes(mux *http.ServeMux, client *rlock.Client) {
	mux.HandleFunc("/ready", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second) // as timeoutSeconds of the probe
		defer cancel()
		if err := client.Check(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/live", func(http.ResponseWriter, *http.Request) {}) // the process answers
}

// migrate brings the schema to a version before the pod serves. One pod migrates, and the others
// wait until it has ended; each asks under the lock whether there is anything left to do.
func migrate(ctx context.Context, client *rlock.Client, to int, version func(context.Context) (int, error), up func(context.Context) error) error {
	return client.NewLock("lock:migrate").Do(ctx, func(ctx context.Context) error {
		is, err := version(ctx)
		if err != nil || is >= to {
			return err
		}
		return up(ctx) // ctx ends if the lock is lost; if up fails, the next pod tries
	})
}

// replicate writes, and keeps the lock for as long as replicas may lag: the next holder reads from
// any of them.
func replicate(ctx context.Context, lock *rlock.Lock, write func(context.Context) error, lag time.Duration) error {
	hold, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	defer hold.Release(ctx) // if write fails or panics; after Pass it changes nothing
	if err := write(hold.With(ctx)); err != nil {
		return err
	}
	_, err = hold.Pass(ctx, lag) // no process resumes it: the first waiter has the lock when lag is over
	return err
}

// reserve keeps a seat for ten minutes, and returns the text with which its customer buys it.
// ErrNotAcquired: it is taken.
func reserve(ctx context.Context, client *rlock.Client, seat string) (reservation string, err error) {
	hold, err := client.NewLock("lock:seat:"+seat).Acquire(ctx, rlock.WithWait(0))
	if err != nil {
		return "", err
	}
	return hold.Pass(ctx, 10*time.Minute)
}

// buy sells the seat of a reservation, in any process. ErrNotPassed: the ten minutes are over, or
// it was bought.
func buy(ctx context.Context, client *rlock.Client, reservation string, sell func(context.Context) error) error {
	hold, err := client.Resume(ctx, reservation)
	if err != nil {
		return err
	}
	return errors.Join(sell(hold.With(ctx)), hold.Release(ctx))
}

// stand keeps a candidate in the election also if its own work fails: run is candidate.Run with the
// work of the leader.
func stand(ctx context.Context, run func(context.Context) error, failed func(error)) {
	for ctx.Err() == nil {
		if err := run(ctx); errors.Is(err, rlock.ErrClosed) {
			return
		} else if err != nil {
			failed(err)
		}
		select {
		case <-time.After(time.Second): // another process leads meanwhile
		case <-ctx.Done():
		}
	}
}

// serve runs a service until stop ends, as that of signal.NotifyContext(ctx, syscall.SIGTERM) does,
// and then ends it in the order in which the parts need each other.
func serve(stop context.Context, l net.Listener, server *http.Server, lead func(context.Context), guard *idempotent.Guard, client *rlock.Client) error {
	var leading sync.WaitGroup
	leading.Go(func() { lead(stop) })
	go server.Serve(l)
	<-stop.Done()
	limit, cancel := context.WithTimeout(context.Background(), 20*time.Second) // less than the pod's grace period, 30 s
	defer cancel()
	err := server.Shutdown(limit)           // 1. no new requests; those that run end, and release their locks
	leading.Wait()                          // 2. the leader has stopped: another process leads
	guard.Close()                           // 3. what is built on the client: groups of once, guards
	return errors.Join(err, client.Close()) // 4. releases what is still held; after ErrUnconfirmed that ends with its lease
}
