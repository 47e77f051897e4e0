package redistest_test

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// again runs one test in a test binary of its own and returns its output. The environment has
// child=name in it.
func again(t *testing.T, name string, env ...string) (output string, passed bool) {
	t.Helper()
	return run(t, name, "-test.short=false", env...)
}

// run is again, with a flag.
func run(t *testing.T, name, flag string, env ...string) (output string, passed bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], flag, "-test.v", "-test.run", "^"+strings.ReplaceAll(name, "/", "$/^")+"$")
	cmd.Env = append(append(os.Environ(), child+"="+name), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

const child = "REDISTEST_CHILD"

func TestWithoutAServerInstalledTestsAreSkippedUnlessOneIsRequired(t *testing.T) {
	const missing = "redis-server not found: install Debian's redis-server"
	for _, c := range []struct {
		flag   string
		env    []string
		passed bool
		says   []string
	}{
		{"-test.short=false", []string{"PATH=", "RLOCK_REQUIRE_REDIS="}, true, []string{"--- SKIP: TestTheArgumentsReachTheServer", missing}},
		{"-test.short=false", []string{"PATH=", "RLOCK_REQUIRE_REDIS=1"}, false, []string{"--- FAIL: TestTheArgumentsReachTheServer", missing}},
		{"-test.short", []string{"RLOCK_REQUIRE_REDIS="}, true, []string{"-short uses no real server; RLOCK_REQUIRE_REDIS=1 asks for one"}},
		{"-test.short", []string{"PATH=", "RLOCK_REQUIRE_REDIS=1"}, false, []string{missing}},
	} {
		out, passed := run(t, "TestTheArgumentsReachTheServer", c.flag, append(c.env, "RLOCK_SERVER=")...)
		assert.Equal(t, c.passed, passed, out)
		for _, text := range c.says {
			assert.Contains(t, out, text)
		}
	}
}

func TestWithoutAServerInstalledEachRunsTheTestOnTheEmbedded(t *testing.T) {
	out, passed := again(t, "TestEachKindStartsEmptyAndAnswers", "PATH=", "RLOCK_SERVER=", "RLOCK_REQUIRE_REDIS=")
	assert.True(t, passed, out)
	assert.Contains(t, out, "--- PASS: TestEachKindStartsEmptyAndAnswers/embedded")
	for _, kind := range []redistest.Kind{redistest.KindStandalone, redistest.KindSentinel, redistest.KindCluster} {
		assert.Contains(t, out, "--- SKIP: TestEachKindStartsEmptyAndAnswers/"+string(kind))
	}
}

func TestTheVariableChoosesTheServerOfAllTests(t *testing.T) {
	redistest.Standalone(t) // or skip
	path := os.Getenv("RLOCK_SERVER")
	for _, name := range []string{"redis-server", "valkey-server"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	out, passed := again(t, "TestTheArgumentsReachTheServer", "PATH=", "RLOCK_SERVER="+path)
	assert.True(t, passed, out)
	assert.Contains(t, out, "redistest: standalone at ")
	out, passed = again(t, "TestStopCutsTheConnectionsOfAnEmbedded", "RLOCK_SERVER="+path)
	assert.True(t, passed, out)
	assert.Contains(t, out, "--- SKIP: TestStopCutsTheConnectionsOfAnEmbedded")

	out, passed = again(t, "TestTheArgumentsReachTheServer", "RLOCK_SERVER=/nowhere/redis-server")
	assert.False(t, passed, "no other server takes its place")
	assert.Contains(t, out, `no program at "/nowhere/redis-server", which RLOCK_SERVER names`)
}

func TestWithoutMainEachStartsServersOfItsOwn(t *testing.T) {
	if os.Getenv(child) == "" {
		redistest.Standalone(t) // or skip
		out, passed := again(t, t.Name())
		assert.True(t, passed, out)
		assert.Contains(t, out, "--- PASS: "+t.Name()+"/sentinel")
		return
	}
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		if s.Kind == redistest.KindSentinel {
			s.Failover(key) // a shared server refuses
		}
	})
}

func TestAServerThatDoesNotStartShowsItsLog(t *testing.T) {
	redistest.Standalone(t) // or skip
	for _, start := range []func(testing.TB, ...string) *redistest.Server{redistest.Standalone, redistest.Sentinel, redistest.Cluster} {
		p := new(redistest.Program)
		err := redistest.Attempt(func() { start(p, "--no-such-setting", "1") })
		assert.ErrorContains(t, err, "did not start: it ended; the end of its log:\n")
		assert.ErrorContains(t, err, "no-such-setting")
		p.Close()
	}
}

func TestAPortThatIsTakenIsGivenUpInTheEnd(t *testing.T) {
	_, port, err := net.SplitHostPort(redistest.Standalone(t).Addr())
	require.NoError(t, err)
	p := new(redistest.Program)
	assert.ErrorContains(t, redistest.Attempt(func() { redistest.Standalone(p, "--port", port) }), "port taken")
	p.Close()
}

func TestATestInVirtualTimeThatHangsEndsTheProcess(t *testing.T) {
	hang := os.Getenv("REDISTEST_HANG")
	if os.Getenv(child) == "" {
		for how, c := range map[string]struct{ hang, after string }{
			"ticker": {redistest.Hang.String(), "1h30m0s"}, // of virtual time, which pass before so much of the real one
			"busy":   {"100ms", "300ms"},
		} {
			out, passed := again(t, t.Name(), "RLOCK_SERVER=", "RLOCK_HANG="+c.hang, "REDISTEST_HANG="+how)
			assert.False(t, passed)
			assert.Contains(t, out, "panic: redistest: "+t.Name()+" hangs: "+c.after+" have passed")
			assert.Contains(t, out, "start_test.go", "the goroutine that hangs")
		}
		return
	}
	redistest.Virtual(t, func(t *testing.T) {
		tick := time.Tick(time.Second) // never a deadlock to synctest
		for hang == "busy" {           // no time passes
			runtime.Gosched()
		}
		for range tick {
		}
	})
}

func TestAwaitFailsATestThatWouldHang(t *testing.T) {
	if os.Getenv(child) == "" {
		out, passed := again(t, t.Name(), "RLOCK_HANG=100ms")
		assert.False(t, passed)
		assert.Contains(t, out, "start_test.go")
		assert.Contains(t, out, "redistest: nothing has come for 100ms")
		return
	}
	come := make(chan int, 1)
	come <- 1
	assert.Equal(t, 1, redistest.Await(t, come))
	redistest.Await(t, come)
}
