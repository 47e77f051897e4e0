package core

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// files returns the files of a package that are no tests.
func files(t *testing.T, dir string) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]*ast.File)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if all[name], err = parser.ParseFile(token.NewFileSet(), name, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// The core reads no clock, starts no goroutine, takes no mutex and sends nothing.
func TestTheCoreHasNoInputAndOutput(t *testing.T) {
	allowed := []string{"math", "slices"}
	for name, file := range files(t, ".") {
		for _, spec := range file.Imports {
			if path, _ := strconv.Unquote(spec.Path.Value); !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s", name, path)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt:
				t.Errorf("%s starts or talks to a goroutine", name)
			}
			return true
		})
	}
}

// Each of these states is written in one file.
func TestEachStateIsWrittenInOneFile(t *testing.T) {
	home := map[string]string{
		"want": "want.go", "place": "place.go", "flight": "flight.go",
		"trust": "trust.go", "until": "", "seen": "trust.go", "claim": "trust.go", "called": "turn.go", "least": "trust.go", "most": "trust.go",
		"levels": "levels.go", "summary": "levels.go", "writes": "levels.go", "asked": "levels.go", "longest": "levels.go", "ends": "", "wrote": "",
	}
	for name, file := range files(t, ".") {
		if name == "snapshot.go" { // copies all
			continue
		}
		eachWritten(file, func(field string) {
			if where := home[field]; where != "" && where != name {
				t.Errorf("%s writes %s, which %s does", name, field, where)
			}
		})
	}
}

// What becomes of a call is written here: a driver reads it.
func TestADriverWritesNoResult(t *testing.T) {
	for _, dir := range []string{"../../rlock/internal/driver", "../explore"} {
		all := files(t, dir)
		if len(all) == 0 {
			t.Fatalf("%s is empty", dir)
		}
		for name, file := range all {
			eachWritten(file, func(field string) {
				if slices.Contains([]string{"Outcome", "Ticket", "Effects"}, field) {
					t.Errorf("%s writes %s", name, field)
				}
			})
		}
	}
}

// eachWritten calls yield with each field that is written in the file, or whose address is taken.
func eachWritten(file *ast.File, yield func(field string)) {
	written := func(e ast.Expr) {
		for {
			switch x := e.(type) {
			case *ast.IndexExpr:
				e = x.X
			case *ast.SelectorExpr:
				yield(x.Sel.Name)
				e = x.X
			default:
				return
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				if n.Tok != token.DEFINE {
					written(e)
				}
			}
		case *ast.IncDecStmt:
			written(n.X)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				written(n.X)
			}
		}
		return true
	})
}

var (
	wantNames  = [...]string{"Gone", "Tried", "Queued", "Resumed", "Held", "Kept", "Parted"}
	placeNames = [...]string{"Unsent", "Unsure", "Refused", "InQueue", "Owner", "Over"}
	opNames    = [...]string{"None", "Acquire", "Resume", "Join", "Look", "Mirror", "Leave", "Step", "Unmark", "Write"}
)

// The picture in doc.go is the table.
func TestThePictureIsTheTable(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimPrefix(line, "//\t"); strings.HasPrefix(line, `want \ place`) || len(lines) > 0 && len(lines) <= len(wantNames) {
			lines = append(lines, line)
		}
	}
	if len(lines) != 1+len(wantNames) {
		t.Fatalf("%d lines of a picture", len(lines))
	}
	for w := range table {
		line := lines[w+1]
		if !strings.HasPrefix(line, wantNames[w]) {
			t.Fatalf("%q is not the line of %s", line, wantNames[w])
		}
		for p := range table[w] {
			from, to := strings.Index(lines[0], placeNames[p]), len(line)
			if p+1 < len(placeNames) {
				to = strings.Index(lines[0], placeNames[p+1])
			}
			shown := ""
			if from < len(line) {
				shown = strings.TrimSpace(line[from:min(to, len(line))])
			}
			var ops []string
			for _, m := range table[w][p] {
				ops = append(ops, opNames[m.op])
			}
			if is := strings.Join(ops, ", "); is != shown {
				t.Errorf("%s and %s: the table has %q, and the picture %q", wantNames[w], placeNames[p], is, shown)
			}
		}
	}
}
