package readme

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	_ "github.com/go-rlock/rlock/rlock/rlocktest" // and rlock: so that no result is taken from the cache after the API has changed
)

// imports are the packages that a block may name without importing them, by their names.
var imports = map[string]string{
	"gocron":      "github.com/go-co-op/gocron/v2",
	"redis":       "github.com/redis/go-redis/v9",
	"rlockgocron": "github.com/go-rlock/rlock/rlock/gocron",
	"rueidis":     "github.com/redis/rueidis",
	"valkey":      "github.com/valkey-io/valkey-go",
}

func init() {
	for _, name := range strings.Fields("sync/atomic context errors strings fmt net net/http net/http/httptest log os log/slog database/sql sync testing/synctest testing time crypto/tls crypto/x509") {
		imports[path.Base(name)] = name
	}
	for _, name := range strings.Fields("rlock rlock/elect rlock/inspect rlock/once rlock/once/idempotent rlock/goredis rlock/rlocktest rlock/valkeygo") {
		imports[path.Base(name)] = "github.com/go-rlock/rlock/" + name
	}
}

const root = "../.." // of the module

// block is a Go block with the mark above it: the mark's name, its text, and the code.
var block = regexp.MustCompile("(?m)(?:^<!-- (go|from): (.*) -->\n)?^```go\n((?s:.*?))^```$")

// complete returns the Go blocks of a page as files, whose errors have the lines of the page.
func complete(page, markdown string) (files []string, err error) {
	all := block.FindAllStringSubmatchIndex(markdown, -1)
	if fences := strings.Count("\n"+markdown, "\n```go\n"); fences != len(all) {
		return nil, fmt.Errorf("%s: a Go block does not end", page)
	}
	if marks := regexp.MustCompile(`(?m)^<!-- (go|from):`).FindAllString(markdown, -1); len(marks) != strings.Count(markdown, " -->\n```go\n") {
		return nil, fmt.Errorf("%s: a mark is not on the line above a Go block", page)
	}
	for _, at := range all {
		group := func(n int) string {
			if at[2*n] < 0 {
				return ""
			}
			return markdown[at[2*n]:at[2*n+1]]
		}
		mark, value, text := group(1), group(2), regexp.MustCompile(`(?m)^\s*\.\.\.$`).ReplaceAllString(group(3), "")
		line := 1 + strings.Count(markdown[:at[6]], "\n")
		if mark == "from" {
			file, err := os.ReadFile(filepath.Join(root, value))
			if err != nil || !strings.Contains(string(file), text) {
				return nil, fmt.Errorf("%s:%d: the block is not a part of %s", page, line, value)
			}
			value = ""
		}
		file, err := completed(fmt.Sprintf("//line %s:%d:1\n", page, line)+text, value)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

func completed(text, signature string) (string, error) {
	parse := func(text string) (*ast.File, error) { return parser.ParseFile(token.NewFileSet(), "", text, 0) }
	if _, err := parse(text); err == nil {
		return text, nil
	}
	if _, err := parse("package block\n" + text); err != nil {
		if signature == "" {
			signature = "()"
		}
		text = "func _" + signature + " {\n" + text + "panic(\"so that no return is missing\")\n}\n"
	}
	file, err := parse("package block\n" + text)
	if err != nil {
		return "", err
	}
	head := "package block\n"
	for _, name := range slices.Sorted(maps.Keys(imports)) {
		if slices.ContainsFunc(file.Unresolved, func(id *ast.Ident) bool { return id.Name == name }) {
			head += fmt.Sprintf("import %q\n", imports[name])
		}
	}
	return head + text, nil
}

// compile compiles the blocks of all pages at once, each as a package of its own that only the go
// command sees.
func compile(t *testing.T, pages map[string]string) error {
	t.Helper()
	dir, err := filepath.Abs(root)
	require.NoError(t, err)
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		files, err := complete(page, pages[page])
		if err != nil {
			return err
		}
		for _, text := range files {
			if strings.Contains(text, "/internal/") {
				return fmt.Errorf("%s: the reader may not import an internal package", page)
			}
			n := len(overlay.Replace)
			file := filepath.Join(t.TempDir(), fmt.Sprint(n, ".go"))
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			overlay.Replace[filepath.Join(dir, "docs", "blocks", fmt.Sprint(n), "block.go")] = file
		}
	}
	list, err := json.Marshal(overlay)
	require.NoError(t, err)
	listed := filepath.Join(t.TempDir(), "overlay.json")
	require.NoError(t, os.WriteFile(listed, list, 0o600))
	build := exec.Command("go", "build", "-overlay", listed, "./docs/blocks/...")
	build.Dir = dir
	if said, err := build.CombinedOutput(); err != nil {
		return errors.New(string(said))
	}
	return nil
}

func TestEachGoBlockOfTheDocumentsCompiles(t *testing.T) {
	redistest.Slow(t) // all packages of the documents are compiled
	paths, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	pages := make(map[string]string)
	for _, path := range append(paths, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		path, err = filepath.Abs(path)
		require.NoError(t, err)
		pages[path] = string(text)
	}
	require.NoError(t, compile(t, pages))
}

func TestABlockThatDoesNotCompileIsReportedWithItsLine(t *testing.T) {
	redistest.Slow(t)
	for name, c := range map[string]struct{ page, told string }{
		"an unknown method":      {"<!-- go: (lock *rlock.Lock) -->\n```go\nlock.Unknown()\n```", "/bad.md:3:6"},
		"an internal package":    {"```go\npackage main\nimport _ \"github.com/go-rlock/rlock/internal/network\"\nfunc main() {}\n```", "the reader may not import"},
		"no end":                 {"```go\n_ = rlock.NewOwner()", "does not end"},
		"not a part of the file": {"<!-- from: examples/handler/handler.go -->\n```go\nfunc other() {}\n```", "/bad.md:3: the block is not a part of examples/handler/handler.go"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.ErrorContains(t, compile(t, map[string]string{"/bad.md": c.page}), c.told)
		})
	}
}
