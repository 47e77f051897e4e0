package readme

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A tree is what the repository has that comments and documents name.
type tree struct {
	files    []string            // their paths
	packages map[string][]string // folders with Go files, and these
	tests    []string            // tests, benchmarks, fuzz tests and examples: folder.Name
	comments map[string]string   // of each Go file
}

var newTree = sync.OnceValues(func() (*tree, error) {
	t := &tree{packages: map[string][]string{}, comments: map[string]string{}}
	root := os.DirFS("../..")
	return t, fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if name == ".git" || name == "bench/results" {
				return fs.SkipDir
			}
			return err
		}
		t.files = append(t.files, name)
		if path.Ext(name) != ".go" || strings.Contains(name, "/testdata/") {
			return nil
		}
		dir := path.Dir(name)
		t.packages[dir] = append(t.packages[dir], path.Base(name))
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && testName.MatchString(f.Name.Name) {
				t.tests = append(t.tests, dir+"."+f.Name.Name)
			}
		}
		var comments strings.Builder
		for _, group := range file.Comments {
			comments.WriteString(group.Text() + "\n")
		}
		t.comments[name] = comments.String()
		return nil
	})
})

var (
	testName  = regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)[A-Z]\w*$`)
	testNamed = regexp.MustCompile(`\b(?:[\w/]+\.)?(?:Test|Benchmark|Fuzz)[A-Z]\w*\b`)
	fileNamed = regexp.MustCompile(`(?:[\w.-]+/)*[a-z]\w*\.(?:go|lua)\b`)
	pageNamed = regexp.MustCompile(`\b(docs/[\w-]+\.md)(?:#([\w-]+))?`)
	runNamed  = regexp.MustCompile(`(\w*) -(?:run|bench) '?([A-Z][\w|]+)`)
)

// hasTest reports whether a test has that name, or one that begins with it, as patterns of -run do; a
// name may have the end of the test's folder before it, as in losses.TestX.
func (t *tree) hasTest(name string) bool {
	before := "."
	if strings.Contains(name, ".") {
		before = "/"
	}
	return slices.ContainsFunc(t.tests, func(test string) bool { return strings.Contains("/"+test, before+name) })
}

// hasFile reports whether a file has that path, from the folder of one that names it or from any
// other.
func (t *tree) hasFile(named string) bool {
	named = strings.TrimLeft(path.Clean(named), "./")
	return slices.ContainsFunc(t.files, func(file string) bool { return file == named || strings.HasSuffix(file, "/"+named) })
}

func repository(t *testing.T) *tree {
	t.Helper()
	have, err := newTree()
	require.NoError(t, err)
	return have
}

// Tests, files, pages and headings that comments and documents name exist, and something matches
// each pattern of -run.
func TestNamesExist(t *testing.T) {
	have := repository(t)
	texts := maps.Clone(have.comments)
	delete(texts, "internal/readme/names_test.go")
	for _, file := range have.files {
		if path.Ext(file) == ".md" && (path.Dir(file) == "docs" || file == "README.md" || file == "CONTRIBUTING.md") && path.Base(file) != "ledger.md" { // names of its commits
			markdown, err := os.ReadFile(filepath.Join(root, file))
			require.NoError(t, err)
			texts[file] = string(markdown)
		}
	}
	for file, text := range texts {
		text = strings.Join(strings.Fields(text), " ")
		for _, name := range testNamed.FindAllString(text, -1) {
			assert.True(t, name == "TestXxx" || name == "TestMain" || have.hasTest(name), "%s names %s, and there is no such test", file, name)
		}
		for _, m := range runNamed.FindAllStringSubmatch(text, -1) {
			of := "/" + m[1] + "." // the word before may be the tests' folder
			if !slices.ContainsFunc(have.tests, func(test string) bool { return strings.Contains(test, of) }) {
				of = ""
			}
			for pattern := range strings.SplitSeq(m[2], "|") {
				some := slices.ContainsFunc(have.tests, func(test string) bool { return strings.Contains(test, of) && strings.Contains(test, pattern) })
				assert.True(t, some, "%s runs %s, and there is no such test", file, m[0])
			}
		}
		for _, name := range fileNamed.FindAllString(text, -1) {
			name = strings.TrimPrefix(name, "github.com/go-rlock/rlock/")
			assert.True(t, name == "pkg.go" || have.hasFile(name), "%s names %s, and there is no such file", file, name) // pkg.go.dev
		}
		for _, m := range pageNamed.FindAllStringSubmatch(text, -1) {
			page := filepath.Join(root, m[1])
			_, err := os.Stat(page)
			assert.True(t, err == nil && (m[2] == "" || anchors(t, page)[m[2]]), "%s names %s, and there is no such page or heading", file, m[0])
		}
	}
}

// A line of the map begins with names, up to two spaces: folders, which end in a slash, or files of
// the folder above. A folder with files in the map has all of them there.
func TestTheMapIsThatOfTheTree(t *testing.T) {
	have := repository(t)
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "\n## A map of the house\n")
	require.True(t, found)
	block, _, _ := strings.Cut(after, "\n## ")

	above, files := "", map[string][]string{} // of each folder
	for line := range strings.Lines(block) {
		entry := strings.TrimLeft(line, " ")
		indent := len(line) - len(entry)
		if indent < 4 {
			continue
		}
		names, _, _ := strings.Cut(entry, "  ")
		for _, name := range strings.Split(strings.TrimSpace(names), ", ") {
			if file := !strings.HasSuffix(name, "/"); file {
				files[above] = append(files[above], name)
				assert.FileExists(t, filepath.Join(root, above, name))
				continue
			}
			folder := path.Clean(name)
			if indent > 4 {
				folder = path.Join(above, name)
			} else {
				above = folder
			}
			files[folder] = nil
			assert.DirExists(t, filepath.Join(root, folder))
		}
	}
	for folder, all := range have.packages {
		_, named := files[folder]
		assert.True(t, named || apart.MatchString(folder), "the map lacks the folder %s", folder)
		for _, file := range all {
			if len(files[folder]) > 0 && !strings.HasSuffix(file, "_test.go") && file != "doc.go" {
				assert.Contains(t, files[folder], file, "of %s", folder)
			}
		}
	}
}

// apart are folders that their parents describe.
var apart = regexp.MustCompile(`^(\.ci|bench|cmd/rlock|examples|rlock/tests|internal/torture|internal/redisson|rlock/rlockotel)/`)
