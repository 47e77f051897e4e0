package internal_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// meanings has each name of a function that is declared more than once on the path of a lock: in
// packages core, driver and wire, and in the scripts. It means the same at each place. Methods of
// an interface of the standard library or of rueidis have the names of that.
var meanings = map[string]string{
	"After":         "the time a span after another, on either clock",
	"Alarm":         "when the agent of a tenure, or a call, asks by itself",
	"Connect":       "connects a lazy client",
	"Extend":        "moves the end of a hold that ends by itself",
	"NewLock":       "makes a lock, of a key and a kind",
	"Pass":          "ends a hold, and passes the lock on to another process",
	"SetLease":      "sets the lease of a level",
	"Since":         "the span between two times, on either clock",
	"Unlock":        "closes a level",
	"ValidUntil":    "the end of the time for which a hold may be believed",
	"acquire":       "acquires a lock for one owner",
	"add":           "adds an element to a list",
	"addOwner":      "gives the lock to a tenure (the interface of a step: queue.lua)",
	"close":         "ends a part of a client, and waits for its goroutines",
	"hasLock":       "whether a tenure has the lock (queue.lua)",
	"holder":        "a holder of the lock (queue.lua)",
	"holders":       "the holders of the lock (queue.lua)",
	"ignoreForeign": "ends the subscription to the channel of foreign clients",
	"isFree":        "whether the lock is free (queue.lua)",
	"isOpen":        "whether one more ticket may have the lock (queue.lua)",
	"keepOwner":     "keeps the lock of a tenure that has it, for a lease (queue.lua)",
	"leaseLeft":     "the rest of the lease (queue.lua)",
	"listenForeign": "subscribes to the channel of foreign clients",
	"mirror":        "shows the levels of a tenure in Redis",
	"openCheck":     "whether the server has closed a connection, by the operating system",
	"remove":        "takes an element out of a list",
	"removeOwner":   "takes a tenure out of the lock (queue.lua)",
	"tellAway":      "tells that the server does not answer",
}

// Interfaces of other packages.
var foreignNames = []string{"Close", "Do", "Done", "Err", "Error", "Read", "String", "Unwrap", "Write", "init", "_"}

// A function name on the path of a lock has one meaning: it is declared once, or meanings has it.
func TestAFunctionNameHasOneMeaning(t *testing.T) {
	declared := map[string][]string{}
	for _, dir := range []string{"core", "driver", "wire"} {
		eachFunction(t, dir, func(file string, f *ast.FuncDecl) {
			declared[f.Name.Name] = append(declared[f.Name.Name], dir+"."+cmp.Or(receiver(f), file))
		})
	}
	scripts, err := filepath.Glob("wire/scripts/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, scripts)
	function := regexp.MustCompile(`(?m)^\s*(?:local )?function (\w+)\(`)
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		require.NoError(t, err)
		for _, found := range function.FindAllStringSubmatch(string(text), -1) {
			declared[found[1]] = append(declared[found[1]], filepath.Base(script))
		}
	}
	for name, places := range declared {
		if len(places) > 1 && !slices.Contains(foreignNames, name) {
			assert.Contains(t, meanings, name, "declared by %s", strings.Join(places, ", "))
		}
	}
	for name := range meanings {
		assert.Greater(t, len(declared[name]), 1, "%s is not declared more than once: it needs no meaning here", name)
	}
}

// The glossary has each word of our own, and no more than twelve: a reader learns it before the code.
func TestTheGlossaryIsShort(t *testing.T) {
	page, err := os.ReadFile("../../docs/design.md")
	require.NoError(t, err)
	_, words, _ := strings.Cut(string(page), "\n## Words\n")
	words, _, found := strings.Cut(words, "\n## ")
	require.True(t, found)
	rows := regexp.MustCompile(`(?m)^\| ([a-z -]+) \| `).FindAllStringSubmatch(words, -1)
	require.Equal(t, "word", rows[0][1])
	assert.LessOrEqual(t, len(rows)-1, 12, "fold a word into another row, or use a word of the field")
	for _, word := range []string{"brief", "look"} { // defined in the row of another word
		assert.Contains(t, words, "*"+word+"*")
	}
}

// commented are the packages whose comments these tests read.
var commented = []string{"..", "../elect", "../inspect", "../once", "../once/idempotent", "../redisson", "../../lease", "../../pubsub",
	"../../waitqueue", "background", "composite", "contract", "core", "driver", "monitor", "wire"}

// A comment begins with the name of what it describes, so that a renamed function keeps its comment.
func TestACommentNamesItsFunction(t *testing.T) {
	for _, dir := range commented {
		eachFunction(t, dir, func(file string, f *ast.FuncDecl) {
			if f.Doc == nil || f.Name.Name == "init" {
				return
			}
			words := strings.Fields(f.Doc.Text())
			words = words[:min(len(words), 4)]
			named := slices.ContainsFunc(words, func(w string) bool { return strings.Trim(w, ".,:") == f.Name.Name })
			assert.True(t, named, "%s/%s: the comment of %s begins with %q", dir, file, f.Name.Name, words)
		})
	}
}

// The comment of a field, or of a constant, begins with what the value is.
func TestTheCommentOfAValueBeginsWithANoun(t *testing.T) {
	pronoun := regexp.MustCompile(`^(it|its|they|that|those|which|who|these) `)
	for _, dir := range commented {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, name, nil, parser.ParseComments)
			require.NoError(t, err)
			check := func(comment *ast.CommentGroup) {
				if comment != nil && pronoun.MatchString(comment.Text()) {
					t.Errorf("%s: %q: write the noun", files.Position(comment.Pos()), strings.TrimSpace(comment.Text()))
				}
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Field:
					check(n.Comment)
				case *ast.ValueSpec:
					check(n.Comment)
				}
				return true
			})
		}
	}
}

// eachFunction calls yield with each function that a package declares.
func eachFunction(t *testing.T, dir string, yield func(file string, f *ast.FuncDecl)) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				yield(filepath.Base(name), f)
			}
		}
	}
}

// receiver returns the type of a method's receiver, "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	e := f.Recv.List[0].Type
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if generic, ok := e.(*ast.IndexExpr); ok {
		e = generic.X
	}
	return e.(*ast.Ident).Name
}
