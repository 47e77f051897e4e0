package readme

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A logged is a message that the code gives to a Logger.
type logged struct {
	level string // Warn, ...
	text  string
}

var packageOfMessage = regexp.MustCompile(`^(rlock|once|elect|idempotent): `)

// messages returns the messages in the calls of a logger in a file, and all of its texts that look
// like one.
func messages(t *testing.T, path string) (calls []logged, texts []string) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	text := func(e ast.Expr) string {
		if literal, ok := e.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			s, _ := strconv.Unquote(literal.Value)
			return s
		}
		return ""
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if e, ok := n.(ast.Expr); ok && packageOfMessage.MatchString(text(e)) {
			texts = append(texts, text(e))
		}
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch level := method.Sel.Name; level {
		case "Info", "Warn", "Error":
			if s := text(call.Args[0]); packageOfMessage.MatchString(s) {
				calls = append(calls, logged{level, s})
			}
		}
		return true
	})
	return calls, texts
}

// row is a row of the table of messages: the messages in its first column, and its second.
var row = regexp.MustCompile("(?m)^\\| (`(?:rlock|once|elect|idempotent): [^|]*) \\| ([^|]*) \\|")

// TestEachMessageOfTheLogIsDocumented holds the table "These are all messages" of operations.md
// against the code. A message of the table may end in "…".
func TestEachMessageOfTheLogIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	require.NoError(t, err)
	var calls []logged
	var texts []string
	for _, folder := range []string{"rlock", "pubsub", "lease", "waitqueue"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			some, more := messages(t, path)
			calls, texts = append(calls, some...), append(texts, more...)
			return nil
		}))
	}
	require.NotEmpty(t, calls)

	quoted := regexp.MustCompile("`((?:rlock|once|elect|idempotent): [^`]*)`")
	var documented []logged
	for _, r := range row.FindAllStringSubmatch(string(page), -1) {
		for _, q := range quoted.FindAllStringSubmatch(r[1], -1) {
			documented = append(documented, logged{r[2], q[1]})
		}
	}
	is := func(d logged, text string) bool {
		before, after, short := strings.Cut(d.text, "…")
		return d.text == text || short && strings.HasPrefix(text, before) && strings.Contains(text[len(before):], strings.TrimSuffix(strings.TrimSpace(after), "…"))
	}
	for _, call := range calls {
		found := false
		for _, d := range documented {
			found = found || is(d, call.text) && strings.Contains(d.level, call.level)
		}
		assert.True(t, found, "docs/operations.md has no row for %s: %s", call.level, call.text)
	}
	for _, d := range documented {
		found := false
		for _, text := range texts {
			found = found || is(d, text)
		}
		assert.True(t, found, "no code logs what docs/operations.md has: %s", d.text)
	}
}
