package programs_test

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/testbed"
)

// The packages whose exported names programs must call, by their folders.
var faces = map[string]string{
	"rlock": "../..", "once": "../../once", "idempotent": "../../once/idempotent", "redisson": "../../redisson", "elect": "../../elect",
	"inspect": "../../inspect",
}

// What no program calls, and why.
var uncalled = map[string]string{
	"redisson.Permit.Due":    "called by package lease",
	"redisson.Permit.Entry":  "called by package lease",
	"redisson.Permit.Group":  "called by package lease",
	"rlock.Observer.Missed":  "only while 4000 events wait",
	"rlock.ErrUnsupported":   "the embedded server knows all commands",
	"inspect.Process.String": "for people",
	"inspect.Site.String":    "for people",
	"inspect.Lock.KindName":  "for people",

	"rlock.ErrPassed": "the cause of the end of a hold, which is an ErrNotHeld",
}

// exported returns the exported functions, methods, options, fields of settings and of the
// Observer, errors, and words of a type of words, of a package.
func exported(t *testing.T, name, dir string) (names, options []string) {
	p := testbed.Exported(t, name, dir)
	add := func(words ...string) { names = append(names, name+"."+strings.Join(words, "")) }
	for _, v := range p.Vars {
		for _, n := range v.Names {
			if strings.HasPrefix(n, "Err") {
				add(n)
			}
		}
	}
	for _, f := range p.Funcs {
		add(f.Name)
	}
	for _, of := range p.Types {
		for _, f := range of.Funcs {
			if add(f.Name); of.Name == "AcquireOption" {
				options = append(options, f.Name)
			}
		}
		for _, m := range of.Methods {
			add(of.Name, ".", m.Name)
		}
		for _, c := range of.Consts {
			for _, s := range c.Decl.Specs {
				if values := s.(*ast.ValueSpec).Values; len(values) > 0 {
					if word, ok := values[0].(*ast.BasicLit); ok && word.Kind == token.STRING {
						add(of.Name, " ", strings.Trim(word.Value, `"`))
					}
				}
			}
		}
		fields, ok := of.Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType)
		if ok && slices.Contains([]string{"Config", "Advanced", "Options", "Observer"}, of.Name) {
			for _, f := range fields.Fields.List {
				for _, n := range f.Names {
					add(of.Name, ".", n.Name)
				}
			}
		}
	}
	return names, options
}

// covers fails the test if the programs have not called an exported name, or not had two options in
// one call.
func covers(t *testing.T, counts map[string]int) {
	var missing []string
	for name, dir := range faces {
		names, options := exported(t, name, dir)
		require.NotEmpty(t, names)
		for _, n := range names {
			if counts[n] == 0 && counts["error "+n] == 0 && uncalled[n] == "" {
				missing = append(missing, n)
			}
		}
		for i, a := range options {
			for _, b := range options[i+1:] {
				if pair(counts, a, b) == 0 && uncalled[name+"."+a] == "" && uncalled[name+"."+b] == "" {
					missing = append(missing, a+" with "+b)
				}
			}
		}
	}
	slices.Sort(missing)
	require.Empty(t, missing, "no program has called these: add rows to internal/programs")
}

func pair(counts map[string]int, a, b string) int {
	return counts[a+" and "+b] + counts[b+" and "+a]
}
