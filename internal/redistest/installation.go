package redistest

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// An installation is the program that servers are made of, and what every data
// node of a server is told besides the defaults.
type installation struct {
	binary string
	major  int      // version; 0 if it could not be read
	args   []string // of every data node's command line
}

var version = regexp.MustCompile(`v=(\d+)`)

// installed finds redis-server or valkey-server. Without one it skips the test,
// or fails it if RLOCK_REQUIRE_REDIS is 1.
func installed(t testing.TB, args []string) installation {
	t.Helper()
	for _, name := range []string{"redis-server", "valkey-server"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		out, err := exec.Command(path, "--version").Output()
		if err != nil {
			t.Fatalf("redistest: %s --version: %v", path, err)
		}
		i := installation{binary: path, args: args}
		if m := version.FindSubmatch(out); m != nil {
			i.major, _ = strconv.Atoi(string(m[1]))
		}
		return i
	}
	const missing = "redis-server not found: install Debian's redis-server; CI fails on this skip"
	if os.Getenv("RLOCK_REQUIRE_REDIS") == "1" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return installation{}
}

// node makes a data node that does not run. conf is what its kind needs
// in the configuration file.
func (i installation) node(dir string, port int, conf string) *process {
	// A replica is synchronised at once (the default lets it wait five seconds for
	// company), and does not keep the file, from which it would rise with old data.
	conf += "save \"\"\nappendonly no\nrepl-diskless-sync-delay 0\nrdb-del-sync-files yes\n"
	if i.major >= 7 {
		conf += "enable-debug-command local\n"
	}
	return newProcess(i.binary, dir, port, conf, i.args...)
}
