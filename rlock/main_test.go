package rlock_test

import (
	"testing"

	"github.com/go-rlock/rlock/rlock/internal/testbed"
)

// The tests of what this package promises are in rlock/tests; here are the examples and the
// benchmarks.
func TestMain(m *testing.M) { testbed.Main(m) }
