// Package kinds_test is about what only some kinds have: readers and writers, the permits of a semaphore, fencing
// tokens.
package kinds_test

import (
	"testing"

	"github.com/go-rlock/rlock/rlock/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }
