// Mutants breaks the code at random places, one place at a time, and says which of the mutants a
// test finds.
//
//	go run -C .ci/mutants . -n 60 -seed 1                                       of driver, wire and group, by programs in virtual time
//	go run -C .ci/mutants . -in rlock/once -test '-short ./rlock/once'          of other packages, by other tests
//
// A mutant is a condition that is negated, a comparison that is another one, or a call or an
// assignment that is left out. It is compiled as an overlay, so that no file changes. One that does
// not compile does not count. The code of a mutant that no test finds may be in vain, or the mutant
// changes nothing, or a test is missing.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A mutant is an edit of a file.
type mutant struct {
	file     string
	line     int
	from, to int // in the text
	text     string
	what     string
}

// root is the folder of the library.
var root = must(filepath.Abs("../.."))

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	count := flag.Int("n", 60, "how many mutants to make")
	seed := flag.Uint64("seed", 1, "of the places")
	in := flag.String("in", "rlock/internal/driver,rlock/internal/wire,rlock/internal/composite", "the packages to break")
	test := flag.String("test", "-run OverTheWholeFace ./rlock/tests/programs -programs 100", "the arguments of go test")
	flag.Parse()
	var all []mutant
	for dir := range strings.SplitSeq(*in, ",") {
		built := must(build.ImportDir(filepath.Join(root, dir), 0)) // without tests and files of other systems
		for _, file := range built.GoFiles {
			if !strings.HasPrefix(file, "invariants") { // assertions are tests
				all = append(all, mutantsOf(filepath.Join(dir, file))...)
			}
		}
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	lived, tried := 0, 0
	for i := 0; i < len(all) && tried < *count; i++ {
		result := try(all[i], strings.Fields(*test))
		if result == "does not compile" {
			continue
		}
		if tried++; result == "lived" {
			lived++
		}
		fmt.Printf("%-6s  %s:%d: %s\n", result, all[i].file, all[i].line, all[i].what)
	}
	fmt.Printf("of %d places %d were tried, and %d mutants lived\n", len(all), tried, lived)
}

// try runs the test over a mutant.
func try(m mutant, test []string) (result string) {
	dir := must(os.MkdirTemp("", "mutant"))
	defer os.RemoveAll(dir)
	path := filepath.Join(root, m.file)
	source := string(must(os.ReadFile(path)))
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		must(0, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	broken := write("broken.go", source[:m.from]+m.text+source[m.to:])
	overlay := write("overlay.json", string(must(json.Marshal(map[string]any{"Replace": map[string]string{path: broken}}))))
	// The limit is a flag of the test: the process of a test that hangs would outlive "go test" if that was killed.
	command := exec.Command("go", append([]string{"test", "-count=1", "-failfast", "-vet=off", "-timeout=2m", "-overlay", overlay}, test...)...)
	command.Dir = root
	output, failed := command.CombinedOutput()
	switch {
	case failed == nil:
		return "lived"
	case strings.Contains(string(output), "no space left"):
		panic("no space left on the disk") // the mutant was not tested
	case strings.Contains(string(output), "[build failed]"):
		return "does not compile"
	}
	return "killed"
}

func mutantsOf(name string) (all []mutant) {
	set := token.NewFileSet()
	text := must(os.ReadFile(filepath.Join(root, name)))
	file := must(parser.ParseFile(set, name, text, parser.SkipObjectResolution|parser.ParseComments))
	if ast.IsGenerated(file) {
		return nil
	}
	add := func(from, to token.Pos, by, what string) {
		a, b := set.Position(from), set.Position(to)
		what, _, _ = strings.Cut(what, "\n")
		all = append(all, mutant{name, a.Line, a.Offset, b.Offset, by, what})
	}
	source := func(n ast.Node) string {
		return string(text[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset])
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			add(n.Cond.Pos(), n.Cond.End(), "!("+source(n.Cond)+")", "if not "+source(n.Cond))
		case *ast.BinaryExpr:
			if by := others[n.Op]; by != "" {
				add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), by, by+" in "+source(n))
			}
		case *ast.ExprStmt:
			if _, is := n.X.(*ast.CallExpr); is {
				add(n.Pos(), n.End(), "", "without "+source(n))
			}
		case *ast.AssignStmt:
			if n.Tok == token.ASSIGN && len(n.Lhs) == 1 {
				add(n.Pos(), n.End(), "", "without "+source(n))
			}
		}
		return true
	})
	return all
}

// others are the comparisons in place of each.
var others = map[token.Token]string{
	token.EQL: "!=", token.NEQ: "==", token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.LAND: "||", token.LOR: "&&",
}
