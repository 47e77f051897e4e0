package handler

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

// request returns the status of the answer to a request for order 42.
func request(client *rlock.Client, process func(context.Context, string) error) int {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/orders/42", nil)
	r.SetPathValue("order", "42")
	handler(client, process)(w, r)
	return w.Code
}

func done(context.Context, string) error { return nil }

func TestTheStatusTellsTheOutcomeOfTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := rlocktest.NewServer(t)
		defer redis.AssertNothingHeld()
		assert.Equal(t, http.StatusOK, request(redis.Client(), done))

		redis.Steal("lock:orders:42", time.Minute)
		assert.Equal(t, http.StatusConflict, request(redis.Client(), done))
		redis.Lose("lock:orders:42")

		lost := func(ctx context.Context, order string) error {
			redis.Lose("lock:orders:" + order)
			<-ctx.Done()
			return context.Cause(ctx)
		}
		assert.Equal(t, http.StatusInternalServerError, request(redis.Client(), lost))
	})
}

// An order that was not touched since Redis is away is no conflict and no failure of the order.
func TestARedisThatIsAwayIsUnavailable(t *testing.T) {
	for what, away := range map[string]func(*rlocktest.Server, *rlock.Client){
		"loading": func(redis *rlocktest.Server, _ *rlock.Client) {
			redis.Refuse("LOADING Redis is loading the dataset in memory", "EVALSHA", "EVAL")
		},
		"cut":    func(redis *rlocktest.Server, c *rlock.Client) { redis.Cut(c) },
		"silent": func(redis *rlocktest.Server, c *rlock.Client) { redis.Silence(c) },
	} {
		synctest.Test(t, func(t *testing.T) {
			redis := rlocktest.NewServer(t)
			client := redis.Client()
			away(redis, client)
			called := false
			process := func(context.Context, string) error { called = true; return nil }
			assert.Equal(t, http.StatusServiceUnavailable, request(client, process), what)
			assert.False(t, called, what)
		})
	}
}

func TestAPanicFreesTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := rlocktest.NewServer(t)
		client := redis.Client()
		assert.Panics(t, func() { request(client, func(context.Context, string) error { panic("a bug") }) })
		redis.AssertNothingHeld()
	})
}

func TestAnOrderThatIsProcessedIsNoFailureIfOnlyTheReleaseIsUnconfirmed(t *testing.T) {
	failed := errors.New("out of stock")
	for result, status := range map[error]int{nil: http.StatusOK, failed: http.StatusInternalServerError} {
		synctest.Test(t, func(t *testing.T) {
			redis := rlocktest.NewServer(t)
			client := redis.Client()
			assert.Equal(t, status, request(client, func(context.Context, string) error {
				redis.Silence(client)
				return result
			}))
			assert.True(t, redis.Miniredis().Exists("lock:orders:42"), "Redis has not heard of the release")
		})
	}
}
