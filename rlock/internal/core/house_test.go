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
	allowed := []string{"maps", "math", "slices", "strconv", "github.com/go-rlock/rlock/waitqueue"} // none has input and output
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
		"trust": "trust.go", "until": "", "seen": "trust.go", "claim": "trust.go", "least": "trust.go", "most": "trust.go",
	}
	all := files(t, ".")
	delete(all, "image.go") // copies, and keys that have fields of the same names
	for name, file := range all {
		eachWritten(file, func(field string) {
			if where := home[field]; where != "" && where != name {
				t.Errorf("%s writes %s, which %s does", name, field, where)
			}
		})
	}
}

// What becomes of a call is written here: a driver reads it.
func TestADriverWritesNoResult(t *testing.T) {
	for _, dir := range []string{"../driver", "../explore"} {
		all := files(t, dir)
		if len(all) == 0 {
			t.Fatalf("%s is empty", dir)
		}
		for name, file := range all {
			eachWritten(file, func(field string) {
				if slices.Contains([]string{"Outcome", "Ticket", "Effects", "Agent", "Purpose", "Began"}, field) {
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

// A picture is a table in doc.go: its first line has the names of the columns.
type picture struct {
	columns string
	rows    []string
}

// pictureOf returns the table whose first line begins so, with so many rows.
func pictureOf(t *testing.T, first string, rows int) (p picture) {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		switch line = strings.TrimPrefix(line, "//\t"); {
		case strings.HasPrefix(line, first):
			p.columns = line
		case p.columns != "" && len(p.rows) < rows:
			p.rows = append(p.rows, line)
		}
	}
	if len(p.rows) != rows {
		t.Fatalf("a picture %q with %d lines", first, len(p.rows))
	}
	return p
}

// cell returns the text of a row in a column, which ends where the next one begins.
func (p picture) cell(row int, column, next string) string {
	line := p.rows[row]
	from, to := strings.Index(p.columns, column), len(line)
	if next != "" {
		to = min(to, strings.Index(p.columns, next))
	}
	if from >= to {
		return ""
	}
	return strings.TrimSpace(line[from:to])
}

// The picture of the commands in doc.go is the table.
func TestThePictureIsTheTable(t *testing.T) {
	p := pictureOf(t, `want \ place`, int(wants))
	for w := range table {
		if !strings.HasPrefix(p.rows[w], Want(w).String()+" ") {
			t.Fatalf("%q is not the line of %s", p.rows[w], Want(w))
		}
		for place := range table[w] {
			next := ""
			if place+1 < int(places) {
				next = Place(place + 1).String()
			}
			var ops []string
			for _, op := range table[w][place] {
				ops = append(ops, op.String())
			}
			if is, shown := strings.Join(ops, ", "), p.cell(w, Place(place).String(), next); is != shown {
				t.Errorf("%s and %s: the table has %q, and the picture %q", Want(w), Place(place), is, shown)
			}
		}
	}
}

// The picture of the answers is their table.
func TestThePictureOfTheAnswersIsTheirTable(t *testing.T) {
	p := pictureOf(t, `command \ answer`, int(Unmark))
	for op := Acquire; op <= Unmark; op++ {
		row := int(op) - 1
		if !strings.HasPrefix(p.rows[row], op.String()) {
			t.Fatalf("%q is not the line of %s", p.rows[row], op)
		}
		for v, to := range answers[op] {
			is, next := "", ""
			if to != asItWas {
				is = Place(to - toOut).String()
			}
			if v := verdict(v); v == executed || v == unknown { // which have no column
				if is != "" {
					t.Errorf("%s and %s: the table has %q, and the picture has no such column", op, v, is)
				}
				continue
			}
			for n := verdict(v) + 1; n < verdicts && next == ""; n++ {
				if n != executed && n != unknown {
					next = n.String()
				}
			}
			if shown := p.cell(row, verdict(v).String(), next); is != shown {
				t.Errorf("%s and %s: the table has %q, and the picture %q", op, verdict(v), is, shown)
			}
		}
	}
}
