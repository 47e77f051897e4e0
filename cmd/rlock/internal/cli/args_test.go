package cli_test

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/cmd/rlock/internal/cli"
)

// call runs the command inside of the test, without a terminal and without a server.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	in, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer in.Close()
	var out, errs bytes.Buffer
	code = cli.Main(args, in, &out, &errs)
	return code, out.String(), errs.String()
}

func TestTheFlagsOfTheConnectionAreDescribedOnce(t *testing.T) {
	code, help, _ := call(t, "--help")
	assert.Zero(t, code)
	for _, part := range []string{
		"\nThe server:\n      --url ", "\nTLS:\n      --tls ", "\nSentinel:\n      --sentinel name ",
		"--password-file file ", "[RLOCK_SENTINEL_PASSWORD]", "-v, --verbose", "--version",
	} {
		assert.Equal(t, 1, strings.Count(help, part), part)
	}
	for _, command := range []string{"exec", "ls", "show", "web", "unlock", "doctor"} {
		_, about, _ := call(t, command, "--help")
		assert.Regexp(t, `Usage:\n  rlock `+command+` `, about)
		assert.Contains(t, about, "see rlock --help", command)
		assert.Contains(t, about, "-v, --verbose", command)
		assert.NotContains(t, about, "RLOCK_URL", command)
		_, same, _ := call(t, "help", command)
		assert.True(t, about == same, command)
		assert.Contains(t, help, "\n  "+command+" ")
	}
	_, exec, _ := call(t, "exec", "--help")
	for _, flag := range []string{"-n, --nonblock", "-w, --timeout seconds", "--fenced", "--permits N", "--take K", "--lease seconds"} {
		assert.Contains(t, exec, flag)
	}
}

func TestTheVersionIsThatOfTheBuild(t *testing.T) {
	code, stdout, stderr := call(t, "--version")
	assert.Zero(t, code, stderr)
	assert.True(t, strings.HasPrefix(stdout, "rlock "), stdout)
	assert.True(t, strings.HasSuffix(stdout, " "+runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH+"\n"), stdout)
	assert.Equal(t, 1, strings.Count(stdout, "\n"))
}
