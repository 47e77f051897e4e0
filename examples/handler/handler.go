package main

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
		var failed error
		err := client.NewLock("lock:orders:"+order).Do(r.Context(), func(ctx context.Context) error {
			failed = process(ctx, order) // ctx ends with the request, and if the lock is lost
			return failed
		}, rlock.WithWait(2*time.Second))
		if errors.Is(err, rlock.ErrUnconfirmed) && !errors.Is(err, rlock.ErrLost) {
			err = failed // process ran with the lock held, and the release is retried
		}
		switch {
		case errors.Is(err, rlock.ErrNotAcquired): // held elsewhere for two seconds; process was not called
			http.Error(w, "the order is being processed", http.StatusConflict)
		case errors.Is(err, rlock.ErrLost): // process may have overlapped with another holder
			http.Error(w, "the order may have been processed twice", http.StatusInternalServerError)
		case err != nil: // the error of process, or of Redis
			http.Error(w, "the order may not have been processed", http.StatusInternalServerError)
		}
	}
}
