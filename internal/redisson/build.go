package redisson

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// A Version of Redisson, as its registry names it.
type Version string

// The newest releases of both major versions that are in use, and the oldest release that the locks
// are shared with. All run on Java 8 and later; the driver itself wants 17.
const (
	V3     Version = "3.52.0"
	V4     Version = "4.7.0"
	Oldest Version = "3.17.7"
)

// ErrNoJava means that Redisson cannot be run on this machine.
var ErrNoJava = errors.New("redisson: java or mvn not found: install Debian's default-jdk-headless and maven")

// The Maven project. Embedded, it is found wherever the tests of this module or of
// another run.
//
//go:embed driver/pom.xml driver/src
var project embed.FS

// builds has a sync.OnceValues for each version.
var builds sync.Map

// Command returns a command, not started, that runs the main method of a class of
// the driver with that version of Redisson. The arguments are for the JVM. The
// first call for a version builds it, which takes some ten seconds, and more where
// Maven has to download.
func Command(v Version, class string, jvm ...string) (*exec.Cmd, error) {
	build, _ := builds.LoadOrStore(v, sync.OnceValues(func() (string, error) { return build(v) }))
	target, err := build.(func() (string, error))()
	if err != nil {
		return nil, err
	}
	return java(target, class, slices.Concat(jvm, []string{"-XX:SharedArchiveFile=" + archiveOf(target)})...), nil
}

func java(target, class string, jvm ...string) *exec.Cmd {
	path := jarOf(target) + string(filepath.ListSeparator) + filepath.Join(target, "lib", "*")
	return exec.Command("java", append(jvm, "-cp", path, class)...)
}

// The driver in target, and its classes and Redisson's as the JVM maps them into its memory.
func jarOf(target string) string     { return filepath.Join(target, "driver.jar") }
func archiveOf(target string) string { return filepath.Join(target, "driver.jsa") }

// build returns Maven's target folder for the version, which is named after all that
// went into it. It is complete if the archive is there.
func build(v Version) (target string, err error) {
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("%w: %w", ErrNoJava, err)
		}
	}
	id, err := fingerprint()
	if err != nil {
		return "", fmt.Errorf("redisson: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("redisson: no place to build in: %w", err)
	}
	cache = filepath.Join(cache, "rlock")
	built := filepath.Join(cache, fmt.Sprintf("redisson-%s-%x", v, id[:6]))
	target = filepath.Join(built, "target")
	if _, err := os.Stat(archiveOf(target)); err == nil {
		return target, nil
	}
	if _, err := os.Stat(target); err != nil {
		if err := compile(v, cache, built); err != nil {
			return "", err
		}
	}
	return target, archive(target)
}

// compile makes the folder built by Maven. The folder is complete if it is there.
func compile(v Version, cache, built string) error {
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return fmt.Errorf("redisson: %w", err)
	}
	dir, err := os.MkdirTemp(cache, "building-")
	if err != nil {
		return fmt.Errorf("redisson: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // gone already if all went well
	driver, err := fs.Sub(project, "driver")
	if err == nil {
		err = os.CopyFS(dir, driver)
	}
	if err != nil {
		return fmt.Errorf("redisson: %w", err)
	}
	maven := exec.Command("mvn", "--batch-mode", "--quiet", "-Dredisson.version="+string(v), "compile")
	maven.Dir = dir
	if output, err := maven.CombinedOutput(); err != nil {
		return fmt.Errorf("redisson: building the driver with Redisson %s: %w:\n%s", v, err, output)
	}
	if err := os.Rename(dir, built); err != nil && !errors.Is(err, fs.ErrExist) { // another process was faster
		return fmt.Errorf("redisson: %w", err)
	}
	return nil
}

// archive makes the JVM keep the loaded classes of a driver: loading them takes most of the
// time of a process that lives for seconds. The driver ends by itself, since its address has
// no listener. The JVM uses the archive only while the jars stay unchanged.
func archive(target string) error {
	dir, err := os.MkdirTemp(target, "archiving-") // two processes may do this at once
	if err != nil {
		return fmt.Errorf("redisson: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if _, err := os.Stat(jarOf(target)); err != nil {
		jar := exec.Command("jar", "--create", "--file", jarOf(dir), "-C", filepath.Join(target, "classes"), ".")
		if output, err := jar.CombinedOutput(); err != nil {
			return fmt.Errorf("redisson: packing the driver: %w:\n%s", err, output)
		}
		if err := os.Rename(jarOf(dir), jarOf(target)); err != nil {
			return fmt.Errorf("redisson: %w", err)
		}
	}
	driver := java(target, "rlock.Driver", slices.Concat(quickly, []string{"-XX:ArchiveClassesAtExit=" + archiveOf(dir)})...)
	driver.Stdin = strings.NewReader(`{"addresses":["127.0.0.1:1"],"watchdog":30000,"sharded":"AUTO"}` + "\n")
	_ = driver.Run()                                 // it fails, since it cannot connect
	_ = os.Rename(archiveOf(dir), archiveOf(target)) // a JVM that makes no archive does without
	return nil
}

// fingerprint returns a hash of the project's files.
func fingerprint() ([]byte, error) {
	sum := sha256.New()
	err := fs.WalkDir(project, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := project.ReadFile(path)
		fmt.Fprintf(sum, "%s\n%s\n", path, text)
		return err
	})
	return sum.Sum(nil), err
}
