package readme_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/readme"
	"github.com/go-rlock/rlock/internal/redistest"
	_ "github.com/go-rlock/rlock/rlock/rlocktest" // and rlock: so that no result is taken from the cache after the API has changed
)

// root is the directory of the module.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	require.NoError(t, err)
	return dir
}

// newCompiler returns the one compiler of all tests, which asks the go command once for each package.
var newCompiler = sync.OnceValues(func() (*readme.Compiler, error) { return readme.NewCompiler("../..") })

func compiler(t *testing.T) *readme.Compiler {
	t.Helper()
	redistest.Slow(t) // the compiler wants all packages compiled, those of the documents too
	c, err := newCompiler()
	require.NoError(t, err)
	return c
}

func TestEachGoBlockOfTheDocumentsCompiles(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root(t), "docs", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	pages = slices.DeleteFunc(pages, func(page string) bool {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		return !strings.Contains(string(text), "\n```go\n")
	})
	for _, page := range append(pages, filepath.Join(root(t), "README.md")) {
		t.Run(filepath.Base(page), func(t *testing.T) {
			require.NoError(t, compiler(t).Compile(page))
		})
	}
}

// compile compiles the blocks of a file of this text.
func compile(t *testing.T, lines ...string) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "PAGE.md")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
	return compiler(t).Compile(path)
}

func TestBlocksAreCompletedByTheRule(t *testing.T) {
	require.NoError(t, compile(t,
		"A file:",
		"```go",
		"package main",
		"func main() {}",
		"```",
		"Declarations:",
		"```go",
		"func lease(d time.Duration) rlock.AcquireOption { return rlock.WithLease(d) }",
		"```",
		"Statements, of a function with results:",
		"<!-- go: (ctx context.Context, client *rlock.Client) error -->",
		"```go",
		"hold, err := client.NewLock(\"orders:42\").Acquire(ctx)",
		"if err != nil {",
		"	return err",
		"}",
		"defer hold.Release(ctx)",
		"...",
		"```",
		"and of one without:",
		"```go",
		"_ = rlock.NewOwner()",
		"```",
		"Other blocks are not compiled:",
		"```",
		"```go get",
		"```",
	))
}

func TestABlockThatDoesNotCompileIsReportedWithItsLine(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		told  string
	}{
		"an unknown method": {
			[]string{"<!-- go: (lock *rlock.Lock) -->", "```go", "lock.Unknown()", "```"},
			"PAGE.md:3:6",
		},
		"a parameter that is not declared": {
			[]string{"", "```go", "client.NewLock(\"orders:42\")", "```"},
			"PAGE.md:3:1",
		},
		"a result of the wrong type": {
			[]string{"<!-- go: (err error) (string, error) -->", "```go", "if err != nil {", "\treturn err", "}", "```"},
			"PAGE.md:4:9",
		},
		"a variable that is not used": {
			[]string{"```go", "owner := rlock.NewOwner()", "```"},
			"PAGE.md:2:1",
		},
		"declarations": {
			[]string{"```go", "func f() rlock.Owner {", "\treturn nil", "}", "```"},
			"PAGE.md:3:9",
		},
		"the second of two": {
			[]string{"```go", "_ = rlock.NewOwner()", "```", "```go", "_ = rlock.OldOwner()", "```"},
			"PAGE.md:5:11",
		},
		"a program without main": {
			[]string{"```go", "package main", "```"},
			"PAGE.md:2:1: function main is undeclared",
		},
		"a package that readers may not import": {
			[]string{"```go", "package main", "import _ \"github.com/go-rlock/rlock/rlock/internal/core\"", "func main() {}", "```"},
			"PAGE.md: the reader may not import github.com/go-rlock/rlock/rlock/internal/core",
		},
		"no such package": {
			[]string{"```go", "package main", "import _ \"github.com/go-rlock/rlock/absent\"", "func main() {}", "```"},
			"github.com/go-rlock/rlock/absent",
		},
		"no Go at all": {
			[]string{"```go", "lock = = lock", "```"},
			"PAGE.md:2:8",
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.ErrorContains(t, compile(t, c.lines...), c.told)
		})
	}
}

func TestABlockFromAFileIsAPartOfIt(t *testing.T) {
	const from = "<!-- from: examples/gear/main.go -->"
	require.NoError(t, compile(t, from, "```go", `var errFull = errors.New("the gear is full")`, "```"))
	assert.ErrorContains(t, compile(t, from, "```go", "func other() {}", "```"), "PAGE.md: line 3: the block is not a part of examples/gear/main.go")
	assert.ErrorContains(t, compile(t, from, "", "```go", "func other() {}", "```"), "line 1: the mark is not on the line above a Go block")
	assert.ErrorContains(t, compile(t, "<!-- from: none.go -->", "```go", "func other() {}", "```"), "none.go")
}

func TestAPageWithoutGoOrWithAMisplacedMarkIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		told  string
	}{
		"no block":                {[]string{"# Title", "```", "go test ./...", "```"}, "there is no Go block"},
		"a block without its end": {[]string{"```go", "_ = rlock.NewOwner()"}, "line 2: the Go block does not end"},
		"a mark above a blank line": {
			[]string{"<!-- go: (ctx context.Context) -->", "", "```go", "_ = ctx", "```"},
			"line 1: the mark is not on the line above a Go block",
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.ErrorContains(t, compile(t, c.lines...), c.told)
		})
	}
}
