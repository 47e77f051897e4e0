package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/mod/modfile"
)

// require sets the version of the modules in the go.mod of each module that requires them, and in
// go.sum the sums that they will have when the files of the working tree are tagged. The sum of
// a module does not depend on the modules in folders below it, so that one commit can have all.
func (r *Repository) require(version string) error {
	if err := r.replaceInWorkspace(version); err != nil {
		return err // it comes first, since go.work is a file of the root's module
	}
	folder, err := os.MkdirTemp("", "publish")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := r.publish(folder, version); err != nil {
		return err
	}
	for _, m := range r.modules {
		if len(m.requires(r.modules)) == 0 {
			continue
		}
		for _, name := range []string{"go.mod", "go.sum"} {
			text, err := os.ReadFile(filepath.Join(folder, "src", m.path+"@"+version, name))
			if err != nil {
				return err
			}
			if err := write(filepath.Join(r.root, m.dir, name), text); err != nil {
				return err
			}
		}
	}
	for _, m := range r.others {
		if err := m.requireVersion(m.requires(r.modules), version); err != nil {
			return err
		}
		if err := write(filepath.Join(r.root, m.dir, "go.mod"), modfile.Format(m.mod.Syntax)); err != nil {
			return err
		}
	}
	return nil
}

// replaceInWorkspace sets the version that go.work replaces by a folder of the repository.
func (r *Repository) replaceInWorkspace(version string) error {
	path := filepath.Join(r.root, "go.work")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	work, err := modfile.ParseWork("go.work", text, nil)
	if err != nil {
		return err
	}
	for _, replace := range work.Replace {
		token := slices.Index(replace.Syntax.Token, replace.Old.Version)
		if token < 0 {
			return fmt.Errorf("go.work: the line for %s has no version", replace.Old.Path)
		}
		replace.Syntax.Token[token] = version
	}
	return write(path, modfile.Format(work.Syntax))
}
