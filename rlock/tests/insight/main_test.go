// Package insight_test is about what a client tells: observers, logs, counters, the holds of a process, what Inspect
// shows, cycles of waits.
package insight_test

import (
	"testing"

	"github.com/go-rlock/rlock/rlock/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }
