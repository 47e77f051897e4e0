package readme

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Compiler checks the Go blocks of pages. The packages that they import are those of the go
// command, which compiles them once; it is not called for each page. A Compiler is for one goroutine.
type Compiler struct {
	root    string            // of the module
	version string            // of Go, as go.mod has it
	files   map[string]string // the compiled packages, by import path
	types.Importer
}

// NewCompiler returns a Compiler for pages of the module at root.
func NewCompiler(root string) (*Compiler, error) {
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	version := goVersion.FindSubmatch(module)
	if version == nil {
		return nil, errors.New("readme: go.mod has no version of Go")
	}
	c := &Compiler{root: root, version: "go" + string(version[1]), files: make(map[string]string)}
	c.Importer = importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(c.files[path]) })
	return c, nil
}

var goVersion = regexp.MustCompile(`(?m)^go (\S+)$`)

// Compile checks the Go blocks of the Markdown file at path. The error has all that is wrong with
// one of them, with the lines of the file.
func (c *Compiler) Compile(path string) error {
	markdown, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	blocks, err := Blocks(string(markdown))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	lines := token.NewFileSet()
	var files []*ast.File
	for _, b := range blocks {
		if err := b.check(c.root); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		text, err := b.file(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(lines, "", text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	if err := c.find(files); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, file := range files {
		if err := c.types(lines, file); err != nil {
			return err
		}
	}
	return nil
}

// types checks the types of a package of one file.
func (c *Compiler) types(lines *token.FileSet, file *ast.File) error {
	var wrong []error
	config := types.Config{GoVersion: c.version, Importer: c.Importer, Error: func(err error) { wrong = append(wrong, err) }}
	block, _ := config.Check(file.Name.Name, lines, []*ast.File{file}, nil)
	if block.Name() == "main" && block.Scope().Lookup("main") == nil {
		wrong = append(wrong, fmt.Errorf("%s: function main is undeclared in the main package", lines.Position(file.Package)))
	}
	return errors.Join(wrong...)
}

// find asks the go command for the compiled packages that the files import.
func (c *Compiler) find(files []*ast.File) error {
	missing := make(map[string]bool)
	for _, file := range files {
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if strings.Contains("/"+path+"/", "/internal/") {
				return fmt.Errorf("the reader may not import %s", path)
			}
			missing[path] = c.files[path] == ""
		}
	}
	paths := slices.DeleteFunc(slices.Sorted(maps.Keys(missing)), func(path string) bool { return !missing[path] })
	if len(paths) == 0 {
		return nil
	}
	list := exec.Command("go", append([]string{"list", "-export", "-f", "{{.ImportPath}} {{.Export}}", "--"}, paths...)...)
	list.Dir = c.root
	var told strings.Builder
	list.Stderr = &told
	output, err := list.Output()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, told.String())
	}
	for line := range strings.Lines(string(output)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		c.files[path] = file
	}
	return nil
}

// file returns the block as a Go file; errors in it have the lines of path.
func (b Block) file(path string) (string, error) {
	line := fmt.Sprintf("//line %s:%d:1\n", path, b.Line)
	if strings.HasPrefix(strings.TrimSpace(b.Text), "package ") {
		return line + b.Text, nil
	}
	text := line + b.Text
	if !parses("package block\n" + text) {
		text = "func _" + b.Signature + " {\n" + text + "panic(\"the block ends here\")\n}\n"
	}
	file, err := parser.ParseFile(token.NewFileSet(), "", "package block\n"+text, 0)
	if err != nil {
		return "", err
	}
	head := "package block\n"
	for _, name := range slices.Sorted(maps.Keys(imports)) {
		if slices.ContainsFunc(file.Unresolved, func(id *ast.Ident) bool { return id.Name == name }) {
			head += fmt.Sprintf("import %q\n", imports[name])
		}
	}
	return head + text, nil
}

func parses(file string) bool {
	_, err := parser.ParseFile(token.NewFileSet(), "", file, parser.SkipObjectResolution)
	return err == nil
}
