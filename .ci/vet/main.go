// Vet runs the analyzers of "go vet" on packages and their tests. It reads the packages that
// they import from source, where go vet compiles them: for another system, for which nothing
// is compiled yet, it takes a tenth of the time.
//
//	go build -C .ci/vet -o /tmp/vet . && GOOS=windows /tmp/vet ./...
package main

import (
	"golang.org/x/tools/go/analysis/multichecker"
	"golang.org/x/tools/go/analysis/suite/vet"
)

func main() { multichecker.Main(vet.Suite...) }
