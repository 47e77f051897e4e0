package enumcheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// An Enum is a type with constants.
type Enum struct {
	Package, Name string
	Values        []Value // in the order of the source
}

// A Value is a constant of an enum.
type Value struct {
	Name   string
	Number int // -1 and the like, too; without meaning if the enum IsText
	IsText bool
}

// IsText reports whether the values are texts, which need no names.
func (e *Enum) IsText() bool { return e.Values[0].IsText }

// A source is a package as its files say it, without tests.
type source struct {
	name  string
	files []*ast.File
	enums map[string]*Enum // by the identifier of each constant
}

// Of returns the enums of the package in the folder.
func Of(dir string) ([]*Enum, error) {
	s, err := read(token.NewFileSet(), dir)
	if err != nil {
		return nil, err
	}
	var all []*Enum
	for _, e := range s.enums {
		if !slices.Contains(all, e) {
			all = append(all, e)
		}
	}
	return all, nil
}

// Switches returns the switches over an enum that do not panic by default, of the packages in these folders: the enums may be
// each other's. It fails if the folders have no switch over an enum, since then they are the wrong ones.
func Switches(dirs ...string) (faults []string, err error) {
	set := token.NewFileSet()
	packages := make(map[string]*source)
	for _, dir := range dirs {
		s, err := read(set, dir)
		if err != nil {
			return nil, err
		}
		packages[s.name] = s
	}
	found := 0
	for _, s := range packages {
		for _, file := range s.files {
			ast.Inspect(file, func(n ast.Node) bool {
				if sw, ok := n.(*ast.SwitchStmt); ok && sw.Tag != nil {
					if e := s.enumOf(sw, packages); e != nil {
						if found++; !panics(sw) {
							faults = append(faults, fmt.Sprintf("%s: a switch over %s.%s does not panic by default", set.Position(sw.Pos()), e.Package, e.Name))
						}
					}
				}
				return true
			})
		}
	}
	if found == 0 {
		return nil, fmt.Errorf("no switch over an enum in %v", dirs)
	}
	slices.Sort(faults)
	return faults, nil
}

// enumOf returns the enum that the switch is over, nil for none.
func (s *source) enumOf(sw *ast.SwitchStmt, packages map[string]*source) *Enum {
	for _, clause := range sw.Body.List {
		for _, expr := range clause.(*ast.CaseClause).List {
			if e := s.enumWith(expr, packages); e != nil {
				return e
			}
		}
	}
	return nil
}

// enumWith returns the enum that has the constant, nil for another expression.
func (s *source) enumWith(expr ast.Expr, packages map[string]*source) *Enum {
	switch x := expr.(type) {
	case *ast.Ident:
		return s.enums[x.Name]
	case *ast.SelectorExpr:
		if name, ok := x.X.(*ast.Ident); ok && packages[name.Name] != nil {
			return packages[name.Name].enums[x.Sel.Name]
		}
	}
	return nil
}

// panics reports whether the switch ends in a panic for a value that it does not name.
func panics(sw *ast.SwitchStmt) bool {
	for _, stmt := range sw.Body.List {
		if clause := stmt.(*ast.CaseClause); clause.List == nil {
			return endsInPanic(clause.Body)
		}
	}
	return false
}

func endsInPanic(body []ast.Stmt) bool {
	if len(body) == 0 {
		return false
	}
	stmt, ok := body[len(body)-1].(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := stmt.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := call.Fun.(*ast.Ident)
	return ok && f.Name == "panic"
}

func read(set *token.FileSet, dir string) (*source, error) {
	s := &source{enums: make(map[string]*Enum)}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != dir:
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(set, path, nil, 0)
		if err == nil {
			s.name, s.files = file.Name.Name, append(s.files, file)
		}
		return err
	})
	if err == nil && len(s.files) == 0 {
		err = fmt.Errorf("%s has no Go files", dir)
	}
	for _, file := range s.files {
		for _, decl := range file.Decls {
			if block, ok := decl.(*ast.GenDecl); ok && block.Tok == token.CONST {
				s.readBlock(block)
			}
		}
	}
	return s, err
}

// readBlock notes the enum of a block of constants. A constant without a type is none of its values: it counts them, say.
func (s *source) readBlock(block *ast.GenDecl) {
	byType := make(map[string]*Enum)
	var typ ast.Expr
	var value ast.Expr
	for i, spec := range block.Specs {
		spec := spec.(*ast.ValueSpec)
		if len(spec.Values) > 0 {
			typ, value = spec.Type, spec.Values[0]
		}
		of, ok := typ.(*ast.Ident)
		if !ok || types.Universe.Lookup(of.Name) != nil || len(spec.Names) != 1 {
			continue
		}
		v, ok := valueOf(value, i)
		if !ok {
			continue
		}
		if byType[of.Name] == nil {
			byType[of.Name] = &Enum{Package: s.name, Name: of.Name}
		}
		v.Name = spec.Names[0].Name
		byType[of.Name].Values = append(byType[of.Name].Values, v)
	}
	for _, e := range byType {
		if len(e.Values) > 1 {
			for _, v := range e.Values {
				s.enums[v.Name] = e
			}
		}
	}
}

// valueOf returns the value of the i-th constant of a block: iota, a whole number, or a text. Others, as of flags, make no enum.
func valueOf(expr ast.Expr, i int) (v Value, ok bool) {
	sign := 1
	if minus, isUnary := expr.(*ast.UnaryExpr); isUnary && minus.Op == token.SUB {
		sign, expr = -1, minus.X
	}
	switch x := expr.(type) {
	case *ast.Ident:
		return Value{Number: i}, x.Name == "iota"
	case *ast.BasicLit:
		if x.Kind == token.STRING {
			return Value{IsText: true}, true
		}
		n, err := strconv.Atoi(x.Value)
		return Value{Number: sign * n}, err == nil
	}
	return v, false
}

// Name is what the method String of an enum of numbers returns for one.
func Name[E interface {
	~int | ~uint8
	fmt.Stringer
}](n int) string {
	return E(n).String()
}

// Names returns the faults of the names of the enums in the folder's package. Texts need no names. The map name has, by the name
// of each type, a function that returns what its method String does for a number. A number that no value has must have a name of the form
// "Op(12)".
func Names(dir string, name map[string]func(n int) string) (faults []string, err error) {
	enums, err := Of(dir)
	if err != nil {
		return nil, err
	}
	known := make(map[string]bool)
	for _, e := range enums {
		if e.IsText() {
			continue
		}
		known[e.Name] = true
		if name[e.Name] == nil {
			faults = append(faults, fmt.Sprintf("the test knows no names of %s", e.Name))
			continue
		}
		last := 0
		for _, v := range e.Values {
			last = max(last, v.Number)
			if is := name[e.Name](v.Number); is != v.Name {
				faults = append(faults, fmt.Sprintf("%s %d is called %q, and is %s", e.Name, v.Number, is, v.Name))
			}
		}
		beyond := last + 1
		if is, want := name[e.Name](beyond), fmt.Sprintf("%s(%d)", e.Name, beyond); is != want {
			faults = append(faults, fmt.Sprintf("%s %d is called %q, and is none: %q", e.Name, beyond, is, want))
		}
	}
	for of := range name {
		if !known[of] {
			faults = append(faults, fmt.Sprintf("%s is no enum", of))
		}
	}
	slices.Sort(faults)
	return faults, nil
}
