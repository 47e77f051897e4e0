// Mutants breaks the code at random places, one place at a time, and says which of the mutants a
// test finds.
//
//	go run -C .ci/mutants . -n 60 -seed 1                                       of driver, wire and group, by programs in virtual time
//	go run -C .ci/mutants . -n 20 -in rlock/once,rlock/redisson -programs 60    of other packages, by fewer programs
//	go run -C .ci/mutants . -n 60 -seed 1 -test '-short ./rlock/tests/...'      by other tests
//
// A mutant is a condition that is negated, a comparison that is another one, or a call or an
// assignment that is left out. It is compiled as an overlay, so that no file changes. One that does
// not compile does not count. A mutant that no test finds is listed at the end: the code may be in
// vain there, or the mutant changes nothing, or a test is missing.
package main

import (
	"encoding/json"
	"errors"
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
	"time"
)

var (
	count    = flag.Int("n", 60, "how many mutants to make")
	seed     = flag.Uint64("seed", 1, "of the places")
	in       = flag.String("in", "rlock/internal/driver,rlock/internal/wire,rlock/internal/composite", "the packages to break")
	programs = flag.Int("programs", 100, "how many programs run")
	test     = flag.String("test", "", "the arguments of go test, in place of the programs")
	only     = flag.String("only", "", "the only mutant: file:line: and the beginning of what it does")
	limit    = flag.Duration("limit", 2*time.Minute, "after which a test counts as failed")
)

// A mutant is an edit of a file.
type mutant struct {
	file     string
	line     int
	from, to int // in the text
	text     string
	what     string
}

func (m mutant) String() string { return fmt.Sprintf("%s:%d: %s", m.file, m.line, m.what) }

func main() {
	flag.Parse()
	if err := run("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(root string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	var all []mutant
	for dir := range strings.SplitSeq(*in, ",") {
		found, err := mutantsOf(root, dir)
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	fmt.Printf("%d places\n", len(all))
	killed, tried := 0, 0
	var lived []mutant
	for _, m := range all {
		if tried == *count {
			break
		}
		if *only != "" && !strings.HasPrefix(m.String(), *only) {
			continue
		}
		began := time.Now()
		result, err := try(root, m)
		if err != nil {
			return err
		}
		if result == "does not compile" {
			continue
		}
		tried++
		if result == "lived" {
			lived = append(lived, m)
		} else {
			killed++
		}
		fmt.Printf("%-8s %5.1f s  %s\n", result, time.Since(began).Seconds(), m)
	}
	fmt.Printf("%d of %d found; not found:\n", killed, tried)
	for _, m := range lived {
		fmt.Println("  ", m)
	}
	return nil
}

// try runs the test over a mutant.
func try(root string, m mutant) (result string, err error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(root, m.file)
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	broken, overlay := filepath.Join(dir, "broken.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(broken, []byte(string(source[:m.from])+m.text+string(source[m.to:])), 0o600); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{path: broken}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return "", err
	}
	arguments := strings.Fields(*test)
	if len(arguments) == 0 {
		arguments = []string{"-run", "OverTheWholeFace", "./rlock/tests/programs", "-programs", fmt.Sprint(*programs)}
	}
	// The limit is a flag of the test, and no timeout of this program: the process of a test that
	// hangs would outlive its parent "go test" if that was killed.
	command := exec.Command("go", append([]string{"test", "-count=1", "-failfast", "-vet=off", "-overlay", overlay, "-timeout", limit.String()}, arguments...)...)
	command.Dir = root
	output, failed := command.CombinedOutput()
	switch {
	case failed == nil:
		return "lived", nil
	case strings.Contains(string(output), "no space left"):
		return "", errors.New("no space left on the disk") // the mutant was not tested
	case strings.Contains(string(output), "[build failed]"):
		return "does not compile", nil
	case strings.Contains(string(output), "panic: test timed out"):
		return "hung", nil
	}
	return "killed", nil
}

// mutantsOf returns all mutants of a package.
func mutantsOf(root, dir string) (all []mutant, err error) {
	built, err := build.ImportDir(filepath.Join(root, dir), 0) // without tests and files of other systems
	if err != nil {
		return nil, err
	}
	for _, file := range built.GoFiles {
		if strings.HasPrefix(file, "invariants") {
			continue // assertions are tests
		}
		path := filepath.Join(built.Dir, file)
		set := token.NewFileSet()
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return nil, err
		}
		if ast.IsGenerated(file) {
			continue
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return nil, err
		}
		add := func(from, to token.Pos, by, what string) {
			a, b := set.Position(from), set.Position(to)
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
					add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), by, source(n)+" with "+by)
				}
			case *ast.ExprStmt:
				if _, is := n.X.(*ast.CallExpr); is {
					add(n.Pos(), n.End(), "", "without "+first(source(n)))
				}
			case *ast.AssignStmt:
				if n.Tok == token.ASSIGN && len(n.Lhs) == 1 {
					add(n.Pos(), n.End(), "", "without "+first(source(n)))
				}
			}
			return true
		})
	}
	return all, nil
}

// others are the comparisons in place of each.
var others = map[token.Token]string{
	token.EQL: "!=", token.NEQ: "==", token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.LAND: "||", token.LOR: "&&",
}

// first returns the first line of a text.
func first(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
