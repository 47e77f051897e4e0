package internal_test

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// required matches what the comment of a function says that its caller has to hold: a mutex, or a
// state. It is the last line of the comment.
var required = regexp.MustCompile(`(?m)^REQUIRES: (\S+)`)

// takers are the functions of package driver that take the mutex of a shard, for their caller or
// for a function that their caller gives them.
var takers = []string{"lock", "enter", "enterIfAny", "enterTenure", "enterHold", "enterEach", "eachLock", "underMutex", "read", "beginAcquire"}

// A function of package driver that requires the mutex of a shard is called by functions that
// require it as well, or have taken it; and so are the events of package core.
func TestTheMutexOfAShardIsHeldWhereItIsRequired(t *testing.T) {
	const mutex = "shard.mu"
	events := map[string]bool{}
	eachFunction(t, "core", func(_ string, f *ast.FuncDecl) {
		if receiver(f) == "Lock" && f.Name.IsExported() {
			events[f.Name.Name] = true
		}
	})
	for _, name := range []string{"End", "Reset", "IsHeld"} { // other types have such methods
		delete(events, name)
	}
	requires, calls, tests := map[string]bool{}, map[string][]string{}, map[string]bool{}
	eachFunction(t, "driver", func(file string, f *ast.FuncDecl) {
		name := f.Name.Name
		delete(events, name) // one of the driver's own
		if found := required.FindStringSubmatch(f.Doc.Text()); found != nil {
			assert.Equal(t, mutex, strings.TrimRight(found[1], ".,;"), name)
			requires[name] = true
		}
		tests[name] = strings.HasPrefix(file, "invariants")
		ast.Inspect(f.Body, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok {
				if s, ok := c.Fun.(*ast.SelectorExpr); ok {
					calls[name] = append(calls[name], s.Sel.Name)
				}
			}
			return true
		})
	})
	require.NotEmpty(t, requires)
	takes := func(name string) bool {
		return slices.Contains(takers, name) || slices.ContainsFunc(calls[name], func(called string) bool { return slices.Contains(takers, called) })
	}
	for name, all := range calls {
		for _, called := range all {
			if (requires[called] || events[called]) && !requires[name] && !takes(name) && !tests[name] {
				assert.Fail(t, "the mutex is not held", "%s calls %s, which requires %s", name, called, mutex)
			}
		}
	}
}
