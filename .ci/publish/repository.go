package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// A Repository is a working tree with several modules.
type Repository struct {
	root    string
	modules []*Module // those of go.work: a module comes after those that it requires
	others  []*Module // those that are not published
}

// A Module is one that has a go.mod among the tracked files.
type Module struct {
	path  string
	dir   string        // in the repository, with slashes; "." for the root
	mod   *modfile.File // its go.mod
	files []string      // its tracked files, by their paths in the repository
}

// open reads the tracked files of the repository at root.
func open(root string) (*Repository, error) {
	list := exec.Command("git", "-C", root, "ls-files", "-z")
	list.Stderr = os.Stderr
	output, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	files := strings.Split(strings.TrimSuffix(string(output), "\x00"), "\x00")

	modules := make(map[string]*Module) // by folder
	for _, file := range files {
		if path.Base(file) != "go.mod" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		mod, err := modfile.Parse(file, text, nil)
		if err != nil {
			return nil, err
		}
		modules[path.Dir(file)] = &Module{path: mod.Module.Mod.Path, dir: path.Dir(file), mod: mod}
	}
	for _, file := range files {
		info, err := os.Lstat(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			continue // the go command leaves links out
		}
		dir := path.Dir(file)
		for modules[dir] == nil && dir != "." {
			dir = path.Dir(dir)
		}
		if m := modules[dir]; m != nil {
			m.files = append(m.files, file)
		}
	}

	text, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork("go.work", text, nil)
	if err != nil {
		return nil, err
	}
	r := &Repository{root: root}
	var used []*Module
	for _, use := range work.Use {
		m := modules[path.Clean(use.Path)]
		if m == nil {
			return nil, fmt.Errorf("go.work: no go.mod is tracked in %s", use.Path)
		}
		delete(modules, m.dir)
		used = append(used, m)
	}
	for _, m := range modules {
		r.others = append(r.others, m)
	}
	r.modules, err = sorted(used)
	return r, err
}

// sorted returns the modules in an order in which each comes after those that it requires.
func sorted(modules []*Module) (result []*Module, err error) {
	for len(modules) > 0 {
		i := slices.IndexFunc(modules, func(m *Module) bool { return len(m.requires(modules)) == 0 })
		if i < 0 {
			return nil, fmt.Errorf("the module %s is in a cycle of modules that require each other", modules[0].path)
		}
		result = append(result, modules[i])
		modules = slices.Delete(modules, i, i+1)
	}
	return result, nil
}

// requires returns those of the modules that m requires.
func (m *Module) requires(modules []*Module) (required []*Module) {
	for _, other := range modules {
		if slices.ContainsFunc(m.mod.Require, func(r *modfile.Require) bool { return r.Mod.Path == other.path }) {
			required = append(required, other)
		}
	}
	return required
}

// contentVersion returns a version that no other content of the published modules has.
func (r *Repository) contentVersion() (string, error) {
	sum := sha256.New()
	for _, m := range r.modules {
		for _, file := range m.files {
			text, err := os.ReadFile(filepath.Join(r.root, file))
			if err != nil {
				return "", err
			}
			fmt.Fprintf(sum, "%s %d\n%s", file, len(text), text)
		}
	}
	return fmt.Sprintf("v0.0.0-gate.x%x", sum.Sum(nil)[:8]), nil
}

// copy writes the module's files below folder.
func (m *Module) copy(root, folder string) error {
	for _, file := range m.files {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(m.dir, file)
		if err != nil {
			return err
		}
		if err := write(filepath.Join(folder, inside), text); err != nil {
			return err
		}
	}
	// The go command gives a module without a licence the one of the repository.
	licence := filepath.Join(folder, "LICENSE")
	if _, err := os.Stat(licence); err == nil {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		return err
	}
	return write(licence, text)
}

// write writes a file, and its folders. A file that has the text already is left alone.
func write(path string, text []byte) error {
	if is, err := os.ReadFile(path); err == nil && bytes.Equal(is, text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, fs.FileMode(0o644))
}
