// Handler is an HTTP service that processes an order in one request at a time, on
// whichever server the requests arrive:
//
//	go run ./examples/handler
//
// A request waits for the lock for two seconds at most, and is then answered with 409, or with
// 503 if Redis was away. The loss of the lock is an error: a request whose lock was lost is
// answered with 500. The handler is in handler.go.
package main

import (
	"context"
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
		mux.Handle("POST /orders/{order}", handler(client, func(ctx context.Context, order string) error {
			entered <- struct{}{}
			select {
			case <-finish:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}))
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
	if _, err := locks[0].NewLock("lock:orders:42").ForceUnlock(ctx); err != nil {
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
