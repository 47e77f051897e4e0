package together_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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

	"rlock.ErrPassed": "the cause of the end of a hold, which is an ErrNotHeld",
}

// exported returns the exported functions, methods, options, fields of settings and of the
// Observer, and errors of a package.
func exported(t *testing.T, name, dir string) (names, options []string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	set := token.NewFileSet()
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if full, option := function(d); full != "" {
					names = append(names, name+"."+full)
					if option {
						options = append(options, full)
					}
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					names = append(names, specified(name, s)...)
				}
			}
		}
	}
	return names, options
}

// function returns the name of an exported function, or of a method of an exported type, and
// whether it makes an AcquireOption.
func function(d *ast.FuncDecl) (name string, option bool) {
	if !d.Name.IsExported() {
		return "", false
	}
	if d.Recv != nil {
		recv := d.Recv.List[0].Type
		if star, ok := recv.(*ast.StarExpr); ok {
			recv = star.X
		}
		of, ok := recv.(*ast.Ident)
		if !ok || !of.IsExported() {
			return "", false
		}
		return of.Name + "." + d.Name.Name, false
	}
	if d.Type.Results != nil && len(d.Type.Results.List) == 1 {
		result, ok := d.Type.Results.List[0].Type.(*ast.Ident)
		option = ok && result.Name == "AcquireOption"
	}
	return d.Name.Name, option
}

// specified returns the errors, the words of a type of words, and the fields of Config, Options and
// Observer, of a declaration.
func specified(name string, s ast.Spec) (names []string) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for i, n := range s.Names {
			if strings.HasPrefix(n.Name, "Err") {
				names = append(names, name+"."+n.Name)
			}
			of, word := s.Type.(*ast.Ident)
			if word && i < len(s.Values) && of.IsExported() {
				if value, ok := s.Values[i].(*ast.BasicLit); ok && value.Kind == token.STRING {
					names = append(names, name+"."+of.Name+" "+strings.Trim(value.Value, `"`))
				}
			}
		}
	case *ast.TypeSpec:
		fields, ok := s.Type.(*ast.StructType)
		if !ok || s.Name.Name != "Config" && s.Name.Name != "Advanced" && s.Name.Name != "Options" && s.Name.Name != "Observer" {
			return nil
		}
		for _, f := range fields.Fields.List {
			for _, n := range f.Names {
				names = append(names, fmt.Sprintf("%s.%s.%s", name, s.Name.Name, n.Name))
			}
		}
	}
	return names
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
				if pair(counts, a, b) == 0 {
					missing = append(missing, a+" with "+b)
				}
			}
		}
	}
	slices.Sort(missing)
	require.Empty(t, missing, "no program has called these: add rows to internal/together")
}

func pair(counts map[string]int, a, b string) int {
	return counts[a+" and "+b] + counts[b+" and "+a]
}
