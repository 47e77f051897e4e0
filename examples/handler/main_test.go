package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-rlock/rlock/rlock/rlocktest"
)

// request returns the status with which the server answers a request for order 42.
func (s *server) request() int {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/orders/42", nil)
	r.SetPathValue("order", "42")
	s.ServeHTTP(w, r)
	return w.Code
}

func TestTheStatusTellsTheOutcomeOfTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := rlocktest.NewServer(t)
		defer redis.AssertNothingHeld()
		done := func(context.Context, string) error { return nil }
		assert.Equal(t, http.StatusOK, (&server{redis.Client(), done}).request())

		redis.Steal("example:order:42", time.Minute)
		assert.Equal(t, http.StatusConflict, (&server{redis.Client(), done}).request())
		redis.Lose("example:order:42")

		lost := func(ctx context.Context, order string) error {
			redis.Lose("example:order:" + order)
			<-ctx.Done()
			return context.Cause(ctx)
		}
		assert.Equal(t, http.StatusInternalServerError, (&server{redis.Client(), lost}).request())
		redis.Refuse("LOADING Redis is loading the dataset in memory", "EVALSHA", "EVAL")
		assert.Equal(t, http.StatusInternalServerError, (&server{redis.Client(), done}).request())
	})
}
