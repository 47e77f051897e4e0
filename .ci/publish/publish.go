package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// sums are the lines of a go.sum: the hash for each module and version, where the version may
// end with /go.mod.
type sums map[module.Version]string

// publish writes each module at one version into the folder, as a proxy has it, and unpacked
// into the folder's src/PATH@VERSION.
func (r *Repository) publish(folder, version string) error {
	if semver.Canonical(version) != version {
		return fmt.Errorf("%q is no version such as v1.2.3", version)
	}
	published := make(sums)
	for _, m := range r.modules {
		src := filepath.Join(folder, "src", m.path+"@"+version)
		if err := m.copy(r.root, src); err != nil {
			return err
		}
		if err := m.setVersion(r.modules, version, published, src); err != nil {
			return err
		}
		if err := m.pack(folder, src, version, published); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
	}
	return nil
}

// setVersion writes the go.mod and the go.sum of m into src, with this version of the modules
// that it requires, and their sums.
func (m *Module) setVersion(modules []*Module, version string, published sums, src string) error {
	if len(m.mod.Replace) > 0 || len(m.mod.Exclude) > 0 {
		return fmt.Errorf("%s/go.mod replaces or excludes a module: it cannot be installed by version", m.dir)
	}
	required := m.requires(modules)
	if len(required) == 0 {
		return nil
	}
	if err := m.requireVersion(required, version); err != nil {
		return err
	}
	if err := write(filepath.Join(src, "go.mod"), modfile.Format(m.mod.Syntax)); err != nil {
		return err
	}
	path := filepath.Join(src, "go.sum")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := make(sums)
	for line := range strings.Lines(string(text)) {
		field := strings.Fields(line)
		if len(field) != 3 {
			return fmt.Errorf("%s: a line without three fields: %q", path, line)
		}
		lines[module.Version{Path: field[0], Version: field[1]}] = field[2]
	}
	for _, other := range required {
		maps.DeleteFunc(lines, func(v module.Version, _ string) bool { return v.Path == other.path })
		for _, v := range []string{version, version + "/go.mod"} {
			of := module.Version{Path: other.path, Version: v}
			lines[of] = published[of]
		}
	}
	return write(path, lines.format())
}

// requireVersion sets the version of the required modules in m.mod.
func (m *Module) requireVersion(required []*Module, version string) error {
	for _, other := range required {
		if err := m.mod.AddRequire(other.path, version); err != nil {
			return err
		}
	}
	m.mod.Cleanup()
	return nil
}

// format returns the lines in the order of the go command.
func (s sums) format() []byte {
	versions := slices.Collect(maps.Keys(s))
	module.Sort(versions)
	var text []byte
	for _, v := range versions {
		text = fmt.Appendf(text, "%s %s %s\n", v.Path, v.Version, s[v])
	}
	return text
}

// pack writes the files of a proxy for the module in src, and adds its sums to published.
func (m *Module) pack(folder, src, version string, published sums) error {
	versions := filepath.Join(folder, filepath.FromSlash(m.path), "@v")
	text, err := os.ReadFile(filepath.Join(src, "go.mod"))
	if err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, time.Now().UTC()})
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"list": []byte(version + "\n"), version + ".mod": text, version + ".info": info} {
		if err := write(filepath.Join(versions, name), content); err != nil {
			return err
		}
	}
	packed := filepath.Join(versions, version+".zip")
	file, err := os.Create(packed)
	if err != nil {
		return err
	}
	defer file.Close()
	of := module.Version{Path: m.path, Version: version}
	if err := zip.CreateFromDir(file, of, src); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	if published[of], err = dirhash.HashZip(packed, dirhash.Hash1); err != nil {
		return err
	}
	open := func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(text))), nil }
	of.Version += "/go.mod"
	published[of], err = dirhash.Hash1([]string{"go.mod"}, open)
	return err
}
