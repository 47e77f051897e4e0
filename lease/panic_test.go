package lease_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/lease"
)

// TestAPanicEndsTheProcess runs itself in another process, where Due or Send panics.
func TestAPanicEndsTheProcess(t *testing.T) {
	const variable = "LEASE_TEST_PANIC_IN"
	if where := os.Getenv(variable); where != "" {
		k := lease.NewKeeper(lease.Config{Send: func(context.Context, uint32, []lease.Renewable) bool {
			panic("a bug in Send")
		}})
		k.Nudge(&asking{due: func(time.Time) bool {
			if where == "Due" {
				panic("a bug in Due")
			}
			return true
		}})
		select {}
	}
	for _, where := range []string{"Due", "Send"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestAPanicEndsTheProcess$", "-test.timeout=5m")
		cmd.Env = append(os.Environ(), variable+"="+where)
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		assert.Contains(t, string(out), "panic: a bug in "+where)
		assert.NotContains(t, string(out), "fatal error", "a fatal error would hide the panic")
		assert.NotContains(t, string(out), "timed out")
	}
}
