package redistest_test

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-rlock/rlock/internal/redistest"
)

// again runs one test in a test binary of its own and returns its output. The environment has
// child=name in it.
func again(t *testing.T, name, flag string, env ...string) (output string, passed bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], flag, "-test.v", "-test.run", "^"+name+"$")
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
		{"-test.short=false", []string{"RLOCK_SERVER=/nowhere/redis-server"}, false, []string{`no program at "/nowhere/redis-server", which RLOCK_SERVER names`}},
	} {
		out, passed := again(t, "TestTheArgumentsReachTheServer", c.flag, append([]string{"RLOCK_SERVER="}, c.env...)...)
		assert.Equal(t, c.passed, passed, out)
		for _, text := range c.says {
			assert.Contains(t, out, text)
		}
	}
}

func TestATestInVirtualTimeThatHangsEndsTheProcess(t *testing.T) {
	hang := os.Getenv("REDISTEST_HANG")
	if os.Getenv(child) == "" {
		for how, c := range map[string]struct{ hang, after string }{
			"ticker": {redistest.Hang.String(), "1h30m0s"}, // of virtual time, which pass before so much of the real one
			"busy":   {"100ms", "300ms"},
		} {
			out, passed := again(t, t.Name(), "-test.short=false", "RLOCK_SERVER=", "RLOCK_HANG="+c.hang, "REDISTEST_HANG="+how)
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
