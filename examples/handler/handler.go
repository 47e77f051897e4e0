// Package handler has an HTTP handler that processes an order in one request at a time, on whichever server the requests
// arrive. A request waits for the lock for two seconds at most, and is then answered with 409, or with 503 if Redis was
// away; one whose lock was lost is answered with 500. The tests show each of them, on the test kit.
package handler

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-rlock/rlock/rlock"
)

// handler processes an order in one request at a time, of all processes.
func handler(client *rlock.Client, process func(ctx context.Context, order string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		order := r.PathValue("order")
		hold, err := client.NewLock("lock:orders:"+order).Acquire(r.Context(), rlock.WithWait(2*time.Second))
		switch {
		case errors.Is(err, rlock.ErrNotAcquired): // held elsewhere for two seconds
			http.Error(w, "the order is being processed", http.StatusConflict)
			return
		case err != nil: // Redis is away, for example; process is not called
			http.Error(w, "try again later", http.StatusServiceUnavailable)
			return
		}
		defer hold.Release(r.Context())              // also if process panics
		err = process(hold.With(r.Context()), order) // its context ends with the request, and if the lock is lost
		switch released := hold.Release(r.Context()); {
		case errors.Is(released, rlock.ErrLost): // process may have overlapped with another holder
			http.Error(w, "the order may have been processed twice", http.StatusInternalServerError)
		case err != nil: // the error of process; a release that is not confirmed is retried, and no failure
			http.Error(w, "the order may not have been processed", http.StatusInternalServerError)
		}
	}
}
