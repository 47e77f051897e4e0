package rlockgocron_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// within fails the test unless the condition is true in that much virtual time.
func within(t *testing.T, limit time.Duration, condition func() bool) {
	t.Helper()
	for begin := time.Now(); !condition(); time.Sleep(limit / 600) {
		if time.Since(begin) > limit {
			t.Fatalf("not within %v", limit)
		}
	}
}
