// Elsewhere reports what does not compile for another system, of packages and of their tests. It
// compiles nothing: of other packages it reads the declarations, which takes some seconds.
//
//	go build -C .ci/elsewhere -o /tmp/elsewhere . && GOOS=windows /tmp/elsewhere ./...
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	here, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	load := packages.Config{
		Mode:  packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedTypesSizes | packages.NeedModule,
		Tests: true,
		ParseFile: func(files *token.FileSet, name string, text []byte) (*ast.File, error) {
			file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
			if err == nil && !strings.HasPrefix(name, here+"/") {
				for _, d := range file.Decls {
					if f, ok := d.(*ast.FuncDecl); ok {
						f.Body = nil
					}
				}
			}
			return file, err
		},
	}
	all, err := packages.Load(&load, os.Args[1:]...)
	if err != nil {
		panic(err)
	}
	failed := 0
	packages.Visit(all, nil, func(p *packages.Package) {
		if p.Module == nil || !p.Module.Main || strings.HasSuffix(p.ID, ".test") {
			return // its imports are not used, without bodies
		}
		for _, err := range p.Errors {
			fmt.Fprintln(os.Stderr, err)
			failed++
		}
	})
	if failed > 0 {
		os.Exit(1)
	}
}
