package redistest_test

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

func TestServersDieWithTheTestBinary(t *testing.T) {
	s := redistest.Standalone(t)
	if os.Getenv(child) != "" {
		fmt.Println("listens at", s.Addr())
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	out, passed := again(t, t.Name(), "-test.short=false")
	assert.False(t, passed)
	addr := regexp.MustCompile(`listens at (\S+)`).FindStringSubmatch(out)
	require.NotNil(t, addr, out)
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", addr[1])
		if err == nil {
			conn.Close()
		}
		return err != nil
	}, redistest.Hang, 5*time.Millisecond)
}
