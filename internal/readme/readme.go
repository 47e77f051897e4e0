// Package readme checks README.md and the pages in docs. A [Compiler] compiles the Go blocks of
// a page, so that readers can use them; [Links] finds links that lead nowhere.
//
// Each block that begins with ```go becomes a package of its own, which may import all packages
// of the modules in go.work but the internal ones. Its types are checked, and no code is made.
//
// A block is completed by this rule:
//
//   - If it begins with a package clause it is a file, and nothing is added.
//
//   - If it is declarations, a package clause is added.
//
//   - Else it is statements, the body of a function. The parameters and results of the
//     function stand in a comment on the line above the block, which readers of the
//     page do not see, and are none without it:
//
//     <!-- go: (ctx context.Context, lock *rlock.Lock) error -->
//
//     A panic is added at the end, so that no return is missing.
//
//   - A block of code that a test runs says where that is on the line above it. It must be a part of that file,
//     letter for letter:
//
//     <!-- from: examples/gear/edit.go -->
//
//   - A line of three dots alone stands for code that is left out, and is dropped.
//
//   - The packages in [imports] are imported where the block names them.
//
// There are no other exceptions: a variable that is not used is an error, as everywhere.
package readme

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// imports are the packages that a block may name without importing them.
var imports = map[string]string{
	"atomic":      "sync/atomic",
	"context":     "context",
	"elect":       "github.com/go-rlock/rlock/rlock/elect",
	"inspect":     "github.com/go-rlock/rlock/rlock/inspect",
	"once":        "github.com/go-rlock/rlock/rlock/once",
	"idempotent":  "github.com/go-rlock/rlock/rlock/once/idempotent",
	"errors":      "errors",
	"strings":     "strings",
	"fmt":         "fmt",
	"http":        "net/http",
	"httptest":    "net/http/httptest",
	"gocron":      "github.com/go-co-op/gocron/v2",
	"log":         "log",
	"goredis":     "github.com/go-rlock/rlock/rlock/goredis",
	"os":          "os",
	"redis":       "github.com/redis/go-redis/v9",
	"rlock":       "github.com/go-rlock/rlock/rlock",
	"rlockgocron": "github.com/go-rlock/rlock/rlock/gocron",
	"rlocktest":   "github.com/go-rlock/rlock/rlock/rlocktest",
	"rueidis":     "github.com/redis/rueidis",
	"slog":        "log/slog",
	"sql":         "database/sql",
	"sync":        "sync",
	"synctest":    "testing/synctest",
	"testing":     "testing",
	"time":        "time",
	"tls":         "crypto/tls",
	"valkey":      "github.com/valkey-io/valkey-go",
	"valkeygo":    "github.com/go-rlock/rlock/rlock/valkeygo",
	"x509":        "crypto/x509",
}

// A Block is the Go between two fences.
type Block struct {
	Line      int    // of its first line in the file, counted from 1
	Signature string // of the function that it is the body of, "()" if none is given
	From      string // the file of the module that it is a part of, "" if none is given
	Text      string
}

const (
	opening  = "```go"
	fence    = "```"
	mark     = "<!-- go:"
	fromMark = "<!-- from:"
	markEnds = "-->"
)

// Blocks returns the Go blocks of a Markdown text. It is an error if there is none, if
// one does not end, or if a mark belongs to no block.
func Blocks(markdown string) (blocks []Block, err error) {
	var (
		inside *Block
		other  bool   // inside a block of something else
		signed string // the mark on the line above
		from   string
	)
	for i, line := range strings.Split(markdown, "\n") {
		line = strings.TrimSuffix(line, "\r")
		switch {
		case inside != nil && line == fence:
			blocks, inside = append(blocks, *inside), nil
		case inside != nil:
			if strings.TrimSpace(line) == "..." {
				line = ""
			}
			inside.Text += line + "\n"
		case other:
			other = line != fence
		case line == opening:
			inside = &Block{Line: i + 2, Signature: cmp.Or(signed, "()"), From: from}
			signed, from = "", ""
		case signed != "" || from != "":
			return nil, fmt.Errorf("line %d: the mark is not on the line above a Go block", i)
		case strings.HasPrefix(line, mark):
			signed = marked(line, mark)
		case strings.HasPrefix(line, fromMark):
			from = marked(line, fromMark)
		default:
			other = strings.HasPrefix(line, fence)
		}
	}
	switch {
	case inside != nil:
		return nil, fmt.Errorf("line %d: the Go block does not end", inside.Line)
	case len(blocks) == 0:
		return nil, errors.New("there is no Go block")
	}
	return blocks, nil
}

// marked returns the text of a mark.
func marked(line, mark string) string {
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(line, mark), markEnds))
}

// check compares the block with the file that it is from.
func (b Block) check(root string) error {
	if b.From == "" {
		return nil
	}
	file, err := os.ReadFile(filepath.Join(root, b.From))
	if err == nil && !strings.Contains(string(file), b.Text) {
		err = fmt.Errorf("line %d: the block is not a part of %s", b.Line, b.From)
	}
	return err
}
