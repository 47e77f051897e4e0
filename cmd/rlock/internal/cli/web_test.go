//go:build unix

package cli_test

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWebServesThePageToThisMachine(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.hold(s.client.NewLock("orders:42"))
	cmd := s.command("web", "--listen", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	said := make([]byte, 200)
	n, err := stderr.Read(said)
	require.NoError(t, err)
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(string(said[:n]))
	require.NotEmpty(t, address, string(said[:n]))
	get := func(path, host string) (int, *http.Response) {
		r, err := http.NewRequestWithContext(s.ctx, http.MethodGet, address+path, nil)
		require.NoError(t, err)
		r.Host = host
		reply, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		t.Cleanup(func() { _ = reply.Body.Close() })
		return reply.StatusCode, reply
	}
	for host, code := range map[string]int{"": 200, "localhost:1": 200, "[::1]": 200, "evil.example": 421, "127.0.0.1.evil.example:80": 421} {
		got, _ := get("/", host)
		assert.Equal(t, code, got, host)
	}
	_, events := get("/events", "")
	var text strings.Builder
	for !strings.Contains(text.String(), "orders:42") {
		n, err := io.CopyN(&text, events.Body, 1)
		require.NoError(t, err, "%d %s", n, text.String())
	}
	code, _ := get("/unlock?l=eA", "")
	assert.Equal(t, http.StatusForbidden, code)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), "the command ends although a page is open")
}
