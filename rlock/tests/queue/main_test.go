// Package queue_test is about the order of owners: the queue in Redis and the line inside a process, and turns with
// clients that are not ours.
package queue_test

import (
	"testing"

	"github.com/go-rlock/rlock/rlock/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }
