package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// An installation is the server program, with the arguments of every data node.
type installation struct {
	binary  string
	release string   // its name and version as a person writes them: "Valkey 9.1.2"
	major   int      // version; 0 if it could not be read
	args    []string // of every data node's command line
}

// serverVariable names the environment variable that chooses the server program by its
// path, for nodes and sentinels alike. If it is empty, the one in PATH is used.
const serverVariable = "RLOCK_SERVER"

// requireVariable names the environment variable that demands a server program if it is 1.
const requireVariable = "RLOCK_REQUIRE_REDIS"

var release = regexp.MustCompile(`^(\w+) server v=((\d+)[.\w-]*)`)

// installed finds the server program. Without one it skips the test, or fails it if
// RLOCK_REQUIRE_REDIS is 1. A program that RLOCK_SERVER names must be there. With -short it skips
// the test also where there is a program, unless one of the variables asks for it.
func installed(t testing.TB, args []string) installation {
	t.Helper()
	if !isWanted() {
		t.Skipf("redistest: -short uses no real server; %s=1 asks for one", requireVariable)
	}
	chosen := os.Getenv(serverVariable)
	for _, name := range programs() {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		out, err := exec.Command(path, "--version").Output()
		if err != nil {
			t.Fatalf("redistest: %s --version: %v", path, err)
		}
		i := installation{binary: path, release: path, args: args}
		if m := release.FindStringSubmatch(string(out)); m != nil {
			i.release = m[1] + " " + m[2]
			i.major, _ = strconv.Atoi(m[3])
		}
		return i
	}
	const missing = "redis-server not found: install Debian's redis-server; CI fails on this skip"
	switch {
	case chosen != "":
		t.Fatalf("redistest: no program at %q, which %s names", chosen, serverVariable)
	case isDemanded():
		t.Fatal(missing)
	default:
		t.Skip(missing)
	}
	return installation{}
}

// programs are the names or paths at which the server program is looked for.
func programs() []string {
	if chosen := os.Getenv(serverVariable); chosen != "" {
		return []string{chosen}
	}
	return []string{"redis-server", "valkey-server"}
}

// Installed reports whether tests use real servers: there is a program, and it is wanted, or one is
// demanded. Otherwise all tests run on embedded servers.
func Installed() bool {
	return isDemanded() ||
		isWanted() && slices.ContainsFunc(programs(), func(name string) bool { _, err := exec.LookPath(name); return err == nil })
}

// isWanted reports whether a test may use a real server. With -short the tests are the same on each
// machine. A program that starts servers has no such flag.
func isWanted() bool { return isDemanded() || !testing.Testing() || !testing.Short() }

// isDemanded reports whether the environment asks for real servers.
func isDemanded() bool {
	return os.Getenv(serverVariable) != "" || os.Getenv(requireVariable) == "1"
}

// WithoutServer skips a test that uses no server if RLOCK_SERVER chooses one, since the test
// would be the same with each. [Embedded] and [Bubble] call it.
func WithoutServer(t testing.TB) {
	t.Helper()
	if os.Getenv(serverVariable) != "" {
		t.Skip("redistest: the test uses no server, and " + serverVariable + " chooses one to test with")
	}
}

// NeedMajor skips the test if the server program has an older major version.
func NeedMajor(t testing.TB, major int) {
	t.Helper()
	if i := installed(t, nil); i.major < major {
		t.Skipf("redistest: %s is older than version %d, which the test needs", i.release, major)
	}
}

// NeedValkey skips the test if the server program is not Valkey, or has an older major version.
func NeedValkey(t testing.TB, major int) {
	t.Helper()
	if i := installed(t, nil); !strings.HasPrefix(i.release, "Valkey ") || i.major < major {
		t.Skipf("redistest: the test needs Valkey %d, and runs on %s", major, i.release)
	}
}

// node makes a data node that does not run. conf is the configuration that its kind needs.
func (i installation) node(dir string, port int, conf string) *instance {
	// A replica is synchronised at once (by default the primary waits five seconds for
	// others), and does not keep the file, from which it would start with old data.
	conf += "save \"\"\nappendonly no\nrepl-diskless-sync-delay 0\nrdb-del-sync-files yes\n"
	if i.major >= 7 {
		conf += "enable-debug-command local\n"
	}
	return newInstance(i.binary, dir, port, conf, i.args...)
}

// Ports come from below 32768, where the kernel's own choice for outgoing
// connections begins on Linux: a server that is stopped and started again must find its
// port free, and not lent to some client in the meantime. A Cluster node
// listens on a second port, busOffset above the first.
//
// A port is reserved until the test ends, also while its server is stopped: this process
// listens on a third port, guardOffset above the first. So no other test, of this binary or
// of another, chooses it.
const (
	firstPort   = 10000
	lastPort    = 15999
	busOffset   = 10000
	guardOffset = 16000
)

// errPortTaken means that another program took a port after it was chosen. Choosing again
// helps.
var errPortTaken = errors.New("redistest: port taken")

// guards are the listeners that reserve ports.
type guards []net.Listener

// reservePorts returns n different ports that are free, like their bus ports, and reserves
// them until the guards are released.
func reservePorts(n int) (ports []int, g guards, err error) {
	for range 100 * n {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		guard, err := net.Listen("tcp", loopback(port+guardOffset))
		if err != nil {
			continue // another test has it
		}
		if !free(port) || !free(port+busOffset) {
			_ = guard.Close()
			continue
		}
		g = append(g, guard)
		if ports = append(ports, port); len(ports) == n {
			return ports, g, nil
		}
	}
	g.release()
	return nil, nil, fmt.Errorf("redistest: found %d of %d free ports between %d and %d", len(ports), n, firstPort, lastPort)
}

func (g guards) release() {
	for _, guard := range g {
		_ = guard.Close()
	}
}

func free(port int) bool {
	l, err := net.Listen("tcp", loopback(port))
	return err == nil && l.Close() == nil
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
