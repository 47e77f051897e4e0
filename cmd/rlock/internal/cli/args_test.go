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

func TestAnErrorAboutArgumentsNamesTheCommandAndSaysWhatToDo(t *testing.T) {
	for args, want := range map[string]string{
		"exec":                        "rlock exec: NAME is missing: rlock exec NAME -- COMMAND [ARGUMENT...]",
		"exec -- true":                "rlock exec: NAME is missing: rlock exec NAME -- COMMAND [ARGUMENT...]",
		"exec a":                      "rlock exec: COMMAND is missing: rlock exec NAME -- COMMAND [ARGUMENT...]",
		"exec a --":                   "rlock exec: COMMAND is missing: rlock exec NAME -- COMMAND [ARGUMENT...]",
		"exec a b -- true":            "rlock exec: one NAME is expected before --, not 2: rlock exec NAME -- COMMAND [ARGUMENT...]",
		"exec a echo hi":              "rlock exec: put -- before the command: rlock exec a -- echo ...",
		"exec a ls -l":                "rlock exec: put -- before the command: rlock exec a -- ls ...",
		"exec a ls -n":                "rlock exec: put -- before the command: rlock exec a -- ls ...",
		"exec a -l":                   "rlock exec: unknown shorthand flag: 'l' in -l",
		"exec -n -w 1 a -- true":      "rlock exec: -n and -w exclude each other",
		"exec --fair -s a -- true":    "rlock exec: -s and --fair exclude each other",
		"exec -s -x --fair a -- true": "rlock exec: -s, -x and --fair exclude each other",
		"exec -E 256 a -- true":       "rlock exec: -E 256: from 0 to 255",
		"show":                        "rlock show: NAME is missing",
		"show a b":                    "rlock show: one NAME is expected, not 2",
		"show --nosuch a":             "rlock show: unknown flag: --nosuch",
		"unlock --force":              "rlock unlock: NAME is missing",
		"ls a b":                      "rlock ls: one PATTERN is expected, not 2: quote it",
		"top a b":                     "rlock top: one PATTERN is expected, not 2: quote it",
		"top --plain --json":          "rlock top: --plain and --json exclude each other",
		"top --interval 1ms":          "rlock top: --interval 1ms: at least 50ms",
		"doctor a":                    `rlock doctor: no argument is expected, not "a"`,
		"nosuch":                      `rlock: unknown command "nosuch" for "rlock"`,

		"exec --take 2 a -- true":             "rlock exec: --take 2: of how many permits? Use --permits as well",
		"exec --fair --take 1 a -- true":      "rlock exec: --take 1: of how many permits? Use --permits as well",
		"exec --permits 0 --take 1 a -- true": "rlock exec: --permits 0: at least 1",
		"exec --permits 3 --take 0 a -- true": "rlock exec: --take 0: from 1 to 3, the number of --permits",
		"exec --permits 3 --take 4 a -- true": "rlock exec: --take 4: from 1 to 3, the number of --permits",
	} {
		code, stdout, stderr := call(t, strings.Fields(args)...)
		assert.Equal(t, 2, code, args)
		assert.Empty(t, stdout, args)
		assert.Equal(t, want+"\n", stderr, args)
	}
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
	for _, command := range []string{"exec", "ls", "show", "top", "unlock", "doctor"} {
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
