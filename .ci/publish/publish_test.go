package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tree writes a repository of three modules, of which extra and both are published beside the
// root, and returns its folder. All files are tracked.
func tree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"LICENSE":       "a licence\n",
		"go.work":       "go 1.26.0\n\nuse (\n\t.\n\t./both\n\t./extra\n)\n\nreplace github.com/example/one v0.1.0 => ./\n",
		"go.mod":        "module github.com/example/one\n\ngo 1.26.0\n",
		"one.go":        "package one\n",
		"docs/page.md":  "a page\n",
		"extra/go.mod":  "module github.com/example/one/extra\n\ngo 1.26.0\n\nrequire github.com/example/one v0.1.0\n",
		"extra/go.sum":  "github.com/example/one v0.1.0 h1:old=\ngithub.com/example/one v0.1.0/go.mod h1:old=\n",
		"extra/x.go":    "package extra\n\nimport _ \"github.com/example/one\"\n",
		"both/go.mod":   "module github.com/example/one/both\n\ngo 1.26.0\n\nrequire (\n\tgithub.com/example/one v0.1.0\n\tgithub.com/example/one/extra v0.1.0\n)\n",
		"both/go.sum":   "",
		"both/LICENSE":  "another licence\n",
		"both/b.go":     "package both\n\nimport _ \"github.com/example/one/extra\"\n",
		"bench/go.mod":  "module github.com/example/one/bench\n\ngo 1.26.0\n\nreplace github.com/example/one => ../\n\nrequire github.com/example/one v0.1.0\n",
		"bench/main.go": "package main\n",
	} {
		if err := write(filepath.Join(root, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("one.go", filepath.Join(root, "link.go")); err != nil {
		t.Fatal(err)
	}
	git(t, root, "init", "-q")
	git(t, root, "add", ".")
	if err := write(filepath.Join(root, "untracked.go"), []byte("package untracked\n")); err != nil {
		t.Fatal(err)
	}
	return root
}

func git(t *testing.T, root string, args ...string) {
	t.Helper()
	command := exec.Command("git", append([]string{"-C", root, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, output)
	}
}

func read(t *testing.T, elements ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// download returns the sum of a module as the go command computes it, with these variables.
func download(t *testing.T, module string, variables ...string) (sum string) {
	t.Helper()
	command := exec.Command("go", "mod", "download", "-json", module)
	command.Dir = t.TempDir()
	command.Env = append(os.Environ(), append(variables, "GOWORK=off", "GOFLAGS=-modcacherw", "GOMODCACHE="+t.TempDir())...)
	output, err := command.Output()
	if err != nil {
		t.Fatalf("go mod download %s: %v\n%s", module, err, output)
	}
	var answer struct{ Sum string }
	if err := json.Unmarshal(output, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Sum
}

func TestTheSumsThatModulesRequireAreThoseOfTheTags(t *testing.T) {
	root, proxy := tree(t), t.TempDir()
	if err := run(root, []string{"require", "v0.3.0"}); err != nil {
		t.Fatal(err)
	}
	if err := run(root, []string{"proxy", proxy, "v0.3.0"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(root, "untracked.go")); err != nil {
		t.Fatal(err)
	}
	git(t, root, "commit", "-aqm", "a release")
	sums := read(t, root, "both/go.sum")
	for _, module := range []string{"", "extra", "both"} {
		git(t, root, "tag", strings.TrimPrefix(module+"/v0.3.0", "/"))
		path := strings.TrimSuffix("github.com/example/one/"+module, "/")
		tagged := download(t, path+"@v0.3.0", "GOPRIVATE=github.com/example", "GIT_CONFIG_COUNT=1",
			"GIT_CONFIG_KEY_0=url.file://"+root+".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/example/one")
		if got := download(t, path+"@v0.3.0", "GOPROXY=file://"+proxy, "GOSUMDB=off"); got != tagged {
			t.Errorf("%s: the proxy's sum is %s, that of the tag %s", path, got, tagged)
		}
		if line := path + " v0.3.0 " + tagged + "\n"; module != "both" && !strings.Contains(sums, line) {
			t.Errorf("both/go.sum has no %s in %s", line, sums)
		}
	}
}

func TestRequireSetsTheVersionEverywhere(t *testing.T) {
	root := tree(t)
	if err := run(root, []string{"require", "v0.3.0"}); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"go.work", "extra/go.mod", "extra/go.sum", "both/go.mod", "bench/go.mod"} {
		if text := read(t, root, file); strings.Contains(text, "v0.1.0") || !strings.Contains(text, "github.com/example/one v0.3.0") {
			t.Errorf("%s:\n%s", file, text)
		}
	}
	before := read(t, root, "both/go.sum")
	if err := run(root, []string{"require", "v0.3.0"}); err != nil || read(t, root, "both/go.sum") != before {
		t.Errorf("a second run changes both/go.sum, or fails: %v", err)
	}
}

func TestAModuleThatReplacesAnotherIsNotPublished(t *testing.T) {
	root := tree(t)
	mod := filepath.Join(root, "extra/go.mod")
	if err := write(mod, []byte(read(t, mod)+"\nreplace github.com/example/one => ../\n")); err != nil {
		t.Fatal(err)
	}
	if err := run(root, []string{"proxy", t.TempDir()}); err == nil {
		t.Error("it is")
	}
}
