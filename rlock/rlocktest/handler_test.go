package rlocktest_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

// ship answers 409 if the order stays locked for two seconds.
func ship(client *rlock.Client, w http.ResponseWriter, r *http.Request) {
	hold, err := client.NewLock("order:"+r.PathValue("id")).Acquire(r.Context(), rlock.WithWait(2*time.Second))
	if errors.Is(err, rlock.ErrNotAcquired) {
		http.Error(w, "the order is being processed", http.StatusConflict)
		return
	}
	if err == nil {
		err = hold.Release(r.Context()) // after the work
	}
	if errors.Is(err, rlock.ErrUnconfirmed) && !errors.Is(err, rlock.ErrLost) {
		err = nil // the order was shipped with the lock held, and the release is retried
	}
	if err != nil {
		http.Error(w, "the order may not have been shipped", http.StatusInternalServerError)
	}
}

func TestAnOrderThatIsLockedElsewhereIsAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		client := server.Client()
		status := func() int {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/orders/42", nil)
			r.SetPathValue("id", "42")
			ship(client, w, r)
			return w.Code
		}
		server.Steal("order:42", time.Minute)
		if got := status(); got != http.StatusConflict {
			t.Errorf("while another server has the order: %d", got)
		}
		time.Sleep(time.Minute)
		if got := status(); got != http.StatusOK {
			t.Errorf("after that: %d", got)
		}
		server.AssertNothingHeld()
	})
}
