package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ownerFile is the only file of Go that takes the text of an owner apart.
const ownerFile = "rlock/internal/wire/owner.go"

// ownerName matches the name of a variable or a field that has the text of an owner, a field of a
// hash, or a member of a queue or a semaphore.
var ownerName = regexp.MustCompile(`(?i)^(owner|holder|ticket|tenure|member|passed|shown)(text)?$`)

// lookers are the functions that look at the beginning of such a text, for people, and take no part
// out.
var lookers = []string{
	"cmd/rlock/internal/cli isOf",   // an operator names a process by any beginning of the text
	"cmd/rlock/internal/view short", // prints so much of it that one can tell it from others
	"rlock/rlockweb short",          // and so does this
}

// cutters are the functions of package strings that take a text apart.
var cutters = regexp.MustCompile(`^(Cut|HasPrefix|HasSuffix|Index|LastIndex|Split|Trim|Fields)`)

// No other code of Go slices or scans the text of an owner: package wire has [wire.OwnerText].
func TestOneFileTakesTheTextOfAnOwnerApart(t *testing.T) {
	found := map[string]bool{}
	for _, root := range []string{"rlock", "cmd/rlock"} {
		require.NoError(t, filepath.WalkDir("../../"+root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ownerFile) {
				return err
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			for _, d := range file.Decls {
				where := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../../")
				if f, ok := d.(*ast.FuncDecl); ok {
					where += " " + f.Name.Name
				}
				ast.Inspect(d, func(n ast.Node) bool {
					if what := cutBy(n); what != "" {
						found[where] = true
						assert.Contains(t, lookers, where, "%s takes %s apart: use wire.OwnerText", set.Position(n.Pos()), what)
					}
					return true
				})
			}
			return nil
		}))
	}
	for _, where := range lookers {
		assert.True(t, found[where], "%s takes no such text apart", where)
	}
}

// cutBy returns what text of an owner an expression takes apart, or "".
func cutBy(n ast.Node) string {
	switch n := n.(type) {
	case *ast.SliceExpr:
		for _, bound := range []ast.Expr{n.Low, n.High} {
			if number, ok := bound.(*ast.BasicLit); ok && slices.Contains([]string{"19", "36", "37"}, number.Value) {
				return "a text at " + number.Value
			}
		}
		return ownerIn(n.X)
	case *ast.IndexExpr:
		return ownerIn(n.X)
	case *ast.BasicLit:
		if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && text == ":write" {
			return "the field of a writer"
		}
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.SelectorExpr); ok && len(n.Args) > 0 && cutters.MatchString(f.Sel.Name) {
			if of, ok := f.X.(*ast.Ident); ok && of.Name == "strings" {
				return ownerIn(n.Args[0])
			}
		}
	}
	return ""
}

// ownerIn returns the name of the variable or field in e, also behind a conversion, if that has the
// text of an owner, or "".
func ownerIn(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		if ownerName.MatchString(e.Name) {
			return e.Name
		}
	case *ast.SelectorExpr:
		return ownerIn(e.Sel)
	case *ast.CallExpr:
		if len(e.Args) == 1 {
			return ownerIn(e.Args[0])
		}
	}
	return ""
}

// cut matches a call that takes a text apart in a script, its text, and the rest of its arguments.
var cut = regexp.MustCompile(`string\.(sub|find|match|gsub)\(([\w.]+(?:\[[^\]]*\])?), ([^()]+|'[^']*')\)`)

// The scripts have the pattern and the cuts of an owner's text once: in owners.lua, tenures.lua and
// permits.lua. swift.lua, which comes before any function, has copies of them, and no others.
func TestOneFileOfTheScriptsTakesTheTextOfAnOwnerApart(t *testing.T) {
	const folder = "wire/scripts/"
	read := func(name string) string {
		text, err := os.ReadFile(folder + name)
		require.NoError(t, err)
		return string(text)
	}
	calls := func(script string) (all []string) {
		for _, found := range cut.FindAllStringSubmatch(script, -1) {
			all = append(all, found[1]+" "+found[3])
		}
		return all
	}
	tenures := calls(read("tenures.lua"))
	require.Equal(t, []string{"sub 1, 37", "sub 38, 38", "sub 1, 36", "sub 1, 19", "sub -6", "match '@[^,*]+'", "sub 2"}, tenures)

	pattern := regexp.MustCompile(`local ourOwner = ('.*')`).FindStringSubmatch(read("owners.lua"))
	require.NotNil(t, pattern)
	var first, last int
	_, err := fmt.Sscanf(tenures[3], "sub %d, %d", &first, &last)
	require.NoError(t, err)
	clientOfMember := fmt.Sprintf("sub %d, %d", first+1, last+1)
	known := append(tenures, "find "+pattern[1], clientOfMember,
		"sub 1, 1",          // the letter of a member
		"find '@', 1, true", // the beginning of a line
		"sub 13")            // the tag in the name of the queue
	swift := calls(read("swift.lua"))
	for _, call := range swift {
		assert.Contains(t, known, call, "swift.lua")
	}
	assert.Contains(t, swift, "find "+pattern[1])
	assert.Contains(t, swift, clientOfMember)
	assert.Contains(t, swift, tenures[2])

	files, err := filepath.Glob(folder + "*.lua")
	require.NoError(t, err)
	for _, file := range files {
		name := filepath.Base(file)
		if slices.Contains([]string{"owners.lua", "tenures.lua", "permits.lua", "swift.lua"}, name) {
			continue
		}
		for _, call := range calls(read(name)) {
			if call != "sub 2" { // also the lease behind a "="
				assert.NotContains(t, tenures, call, name)
			}
			assert.NotRegexp(t, `\b(19|20|3[678])\b|%d|\*`, strings.TrimPrefix(call, "find ':%-?%d'"), name)
		}
	}
}
