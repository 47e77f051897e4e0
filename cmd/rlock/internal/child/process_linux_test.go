package child

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// A process that is stopped gets a signal only when it continues.
func TestTerminateEndsACommandThatIsStopped(t *testing.T) {
	p, err := Start([]string{"sh", "-c", "kill -STOP $$; exec sleep 600"}, os.Environ())
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
		return err == nil && strings.Contains(string(stat), ") T ")
	}, redistest.Hang, time.Millisecond)
	p.Terminate()
	assert.Equal(t, 143, redistest.Await(t, p.Exited()).ExitCode())
	redistest.Await(t, p.Gone())
}
