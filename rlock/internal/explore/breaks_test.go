//go:build !broken

package explore

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The rules of package core are broken here, outside of the product: testdata has edits of its text,
// and the explorer is compiled with all of them once. A setup chooses which one counts
// (broken_test.go).

// An edit replaces a piece of the text of a file.
type edit struct{ file, old, new string }

// edits reads a list of edits: "file NAME", the old lines between "<" and "=", and the new ones up
// to ">".
func edits(t *testing.T, name string) (all []edit) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var e edit
	var into *string
	for line := range strings.Lines(string(text)) {
		switch file, ok := strings.CutPrefix(line, "file "); {
		case ok && into == nil:
			e = edit{file: strings.TrimSpace(file)}
		case line == "<\n":
			into = &e.old
		case line == "=\n" && into == &e.old:
			into = &e.new
		case line == ">\n" && into == &e.new:
			all, into = append(all, e), nil
		case into != nil:
			*into += line
		}
	}
	return all
}

// overlay writes the edited files below dir, and returns the file that tells the compiler to use
// them.
func overlay(t *testing.T, dir, root string, all []edit, added map[string]string) string {
	t.Helper()
	texts := map[string]string{}
	for _, e := range all {
		path := filepath.Join(root, e.file)
		if _, ok := texts[path]; !ok {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[path] = string(text)
		}
		if n := strings.Count(texts[path], e.old); n != 1 {
			t.Fatalf("%s has these lines %d times: change the edit in testdata with the code:\n%s", e.file, n, e.old)
		}
		texts[path] = strings.Replace(texts[path], e.old, e.new, 1)
	}
	for file, from := range added {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Join(root, file)] = string(text)
	}
	replace := map[string]string{}
	for path, text := range texts {
		to := filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(path, root), "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[path] = to
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, list, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Each rule and each cell of the table is broken, and found.
func TestWhatIsBrokenIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles the explorer once more")
	}
	t.Parallel()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	list := overlay(t, t.TempDir(), root, edits(t, "testdata/rules.txt"),
		map[string]string{"rlock/internal/core/broken.go": "testdata/broken.go.txt"})
	arguments := []string{"test", "-vet=off", "-tags", "broken", "-overlay", list, "-run", "Broken|EachCell|EachRule", "."}
	if testing.Verbose() {
		arguments = append(arguments, "-v")
	}
	out, err := exec.Command("go", append(arguments, "-args", "-only", *only)...).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
}
