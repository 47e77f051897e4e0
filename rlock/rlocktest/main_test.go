package rlocktest_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails if a goroutine of the kit outlives its test.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
