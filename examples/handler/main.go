// Handler is an HTTP service that processes an order in one request at a time, on
// whichever server the requests arrive:
//
//	go run ./examples/handler
//
// A request waits for the lock for 100 ms at most, and is then answered with 409. The
// loss of the lock is an error: a request whose lock was lost is answered with 500.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/examples/internal/embedded"
	"github.com/go-rlock/rlock/rlock"
)

const wait = 100 * time.Millisecond

// A server processes orders.
type server struct {
	locks   *rlock.Client
	process func(ctx context.Context, order string) error
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	order := r.PathValue("order")
	err := s.exclusive(r.Context(), order)
	switch {
	case err == nil:
		fmt.Fprintf(w, "order %s is processed", order)
	case errors.Is(err, rlock.ErrNotAcquired):
		http.Error(w, "the order is being processed", http.StatusConflict)
	case errors.Is(err, rlock.ErrLost): // another request may have processed the order as well
		http.Error(w, "the lock was lost", http.StatusInternalServerError)
	default:
		http.Error(w, "the order may not have been processed", http.StatusInternalServerError)
	}
}

// exclusive processes the order with its lock held.
func (s *server) exclusive(ctx context.Context, order string) error {
	return s.locks.NewLock("example:order:"+order).Do(ctx, func(ctx context.Context) error {
		return s.process(ctx, order) // ctx ends with the request, and when the lock is lost
	}, rlock.WithWait(wait))
}

func main() { embedded.Main("handler", run) }

func run(ctx context.Context, options rueidis.ClientOption) error {
	// Two servers, which know each other by nothing but Redis.
	var (
		entered = make(chan struct{})
		finish  = make(chan struct{})
		urls    [2]string
		locks   [2]*rlock.Client
	)
	for i := range urls {
		client, err := rlock.New(rlock.Config{
			Redis: options, Lease: 2500 * time.Millisecond,
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		if err != nil {
			return err
		}
		defer client.Close()
		locks[i] = client
		mux := http.NewServeMux()
		mux.Handle("POST /orders/{order}", &server{client, func(ctx context.Context, order string) error {
			entered <- struct{}{}
			select {
			case <-finish:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}})
		s := httptest.NewServer(mux)
		defer s.Close()
		urls[i] = s.URL
	}

	// The second server is asked for the order that the first one processes.
	first := post(ctx, urls[0])
	<-entered
	if err := expect("while another request is processing it", post(ctx, urls[1]), http.StatusConflict); err != nil {
		return err
	}
	finish <- struct{}{}
	if err := expect("the first request", first, http.StatusOK); err != nil {
		return err
	}

	// The lock of a request is lost.
	second := post(ctx, urls[1])
	<-entered
	if _, err := locks[0].NewLock("example:order:42").ForceUnlock(ctx); err != nil {
		return err
	}
	return expect("a request that lost the lock", second, http.StatusInternalServerError)
}

// An answer is one to a request.
type answer struct {
	status int
	err    error
}

func post(ctx context.Context, url string) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/orders/42", nil)
		if err != nil {
			answers <- answer{err: err}
			return
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			answers <- answer{err: err}
			return
		}
		response.Body.Close()
		answers <- answer{status: response.StatusCode}
	}()
	return answers
}

func expect(what string, answers <-chan answer, status int) error {
	got := <-answers
	if got.err != nil {
		return fmt.Errorf("%s: %w", what, got.err)
	}
	if got.status != status {
		return fmt.Errorf("%s: status %d, not %d", what, got.status, status)
	}
	fmt.Printf("%s: %d %s\n", what, got.status, http.StatusText(got.status))
	return nil
}
