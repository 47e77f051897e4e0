package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/cmd/rlock/internal/child"
	"github.com/go-rlock/rlock/cmd/rlock/internal/cli"
	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// asRlock in the environment makes the test's binary the command, which then is a process
// of its own with children of its own.
const asRlock = "RLOCK_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asRlock) != "" {
		_ = os.Unsetenv(asRlock) // a command under a lock may be a test's binary, too
		os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	if how := os.Getenv(asChild); how != "" {
		os.Exit(beChild(how))
	}
	os.Exit(m.Run())
}

// asChild in the environment makes the test's binary a command for a lock that waits for a
// signal or for the end of its input. A shell would not do: a trap that is due just before its
// read begins is carried out when that has ended.
const (
	asChild   = "RLOCK_TEST_AS_CHILD"
	childHear = "hear"
	childDeaf = "ignore TERM"
	childEasy = "be ended by any signal"

	hears   = "the command hears it" // and exits with 42
	goesOn  = "the command goes on"  // and exits with 6
	isReady = "ready"
)

func beChild(how string) (code int) {
	heard, ended := make(chan os.Signal, 1), make(chan struct{})
	switch how {
	case childHear:
		signal.Notify(heard, child.Forwarded...)
	case childDeaf:
		signal.Ignore(syscall.SIGTERM)
	}
	fmt.Println(isReady)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	select {
	case <-heard:
		fmt.Println(hears)
		return 42
	case <-ended:
		fmt.Println(goesOn)
		return 6
	}
}

// A site is a server, and a client beside the command.
type site struct {
	t      *testing.T
	ctx    context.Context
	addr   string
	client *rlock.Client
}

// newSite starts a server: redis-server if there is one, otherwise the embedded one.
func newSite(t *testing.T) *site {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), redistest.Hang)
	t.Cleanup(cancel)
	s := &site{t: t, ctx: ctx, addr: serverAddr(t)}
	s.client = s.connect(rlock.Config{})
	return s
}

// connect returns another client of the server, which is closed at the end of the test.
func (s *site) connect(config rlock.Config) *rlock.Client {
	s.t.Helper()
	config.Redis = rueidis.ClientOption{InitAddress: []string{s.addr}, ForceSingleClient: true}
	client, err := rlock.New(config)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}

func serverAddr(t *testing.T) string {
	t.Helper()
	if redistest.Installed() {
		return redistest.Standalone(t).Addr()
	}
	return listen(t, redistest.Embedded(t))
}

// needsServer skips a test for which the embedded server is not sufficient.
func needsServer(t *testing.T) {
	t.Helper()
	if !redistest.Installed() {
		t.Skip("there is no redis-server, or -short leaves it out")
	}
}

// listen gives an embedded server a port, since the command is another process.
func listen(t *testing.T, server *redistest.Server) string {
	t.Helper()
	dial := server.Options().DialCtxFn
	n := network.New(func() (net.Conn, error) { return dial(context.Background(), "", nil, nil) })
	require.NoError(t, n.Listen())
	t.Cleanup(n.Close)
	return n.Addr()
}

// command returns the command rlock with these arguments, which uses the site's server.
func (s *site) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.ctx, os.Args[0], args...)
	cmd.WaitDelay = time.Second // for processes that it leaves behind, and that have its output
	cmd.Env = append(os.Environ(), asRlock+"=1", "RLOCK_ADDR="+s.addr, "RLOCK_SINGLE=true")
	return cmd
}

func (s *site) run(stdin string, args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	return finish(s.t, s.command(args...), stdin)
}

// finish runs a command to its end.
func finish(t *testing.T, cmd *exec.Cmd, stdin string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if stdin != "" { // else it is /dev/null
		cmd.Stdin = strings.NewReader(stdin)
	}
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}
