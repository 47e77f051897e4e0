package rlocktest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock/rlocktest"
)

func TestALeaderThatDiesIsReplacedWithinItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		first, second := server.Client(), server.Client()
		dead, err := first.NewLock("leader").Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		server.Kill(first)

		err = second.NewLock("leader").Do(t.Context(), func(context.Context) error { // waits
			if dead.Valid() {
				t.Error("two leaders at once")
			}
			server.AssertHeld("leader", second)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited > 31*time.Second { // virtual time; the default lease is 30 s
			t.Errorf("the second leader waited for %v", waited)
		}
		server.AssertNothingHeld()
	})
}
