package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
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

// patience is how long the package waits for a server before it returns an error.
var patience = 3 * Hang

// An instance is one redis-server, as a data node or as a sentinel. It keeps its
// port and its directory when it is stopped and started again. It is not safe
// for concurrent use.
type instance struct {
	binary string
	port   int
	dir    string
	files  map[string]string // the files in dir at the first launch
	args   []string          // the arguments after the configuration file

	runs   *Process // the last one; nil before the first launch
	paused bool     // by pause
}

const confFile = "redis.conf"

// newInstance makes one that does not run, with a directory of its own
// below dir, and conf for its configuration.
func newInstance(binary, dir string, port int, conf string, args ...string) *instance {
	p := &instance{binary: binary, port: port, dir: filepath.Join(dir, strconv.Itoa(port)), args: args}
	p.files = map[string]string{confFile: fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %q\n%s", port, p.dir, conf)}
	return p
}

func (p *instance) addr() string            { return loopback(p.port) }
func (p *instance) path(file string) string { return filepath.Join(p.dir, file) }

// launch starts the instance and returns without waiting until it answers. Only the first launch
// writes its files: Redis rewrites them when a role changes, so that a restarted instance knows its
// role.
func (p *instance) launch() error {
	if p.runs == nil {
		err := os.MkdirAll(p.dir, 0o700)
		for name, text := range p.files {
			err = errors.Join(err, os.WriteFile(p.path(name), []byte(text), 0o600))
		}
		if err != nil {
			return err
		}
	}
	log, err := os.Create(p.path("log"))
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own copy
	cmd := exec.Command(p.binary, append([]string{p.path(confFile)}, p.args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	runs, err := Start(cmd, nil) // the log shows how it ended
	if err == nil {
		p.runs, p.paused = runs, false
	}
	return err
}

// await returns when the process answers. The answer must carry the process's own id, since
// another server may answer at a port that was lost to it.
func (p *instance) await() error {
	own := fmt.Sprintf("process_id:%d\r", p.runs.ID())
	err := eventually(func() error {
		if !p.running() {
			return hopeless{errors.New("it ended")}
		}
		if err := p.do("PING").Error(); err != nil { // refused with LOADING while it reads its data
			return err
		}
		info, err := p.do("INFO", "server").ToString()
		if err == nil && !strings.Contains(info, own) {
			err = errors.New("another server answers")
		}
		return err
	})
	if err == nil {
		return nil
	}
	log, _ := os.ReadFile(p.path("log"))
	if bytes.Contains(log, []byte("Address already in use")) {
		return fmt.Errorf("%w: %s", errPortTaken, p.addr())
	}
	if tail := 2000; len(log) > tail {
		log = log[len(log)-tail:]
	}
	return fmt.Errorf("redistest: %s at %s did not start: %w; the end of its log:\n%s", p.binary, p.addr(), err, log)
}

func (p *instance) running() bool {
	if p.runs == nil {
		return false
	}
	select {
	case <-p.runs.Gone():
		return false
	default:
		return true
	}
}

// kill ends the process with SIGKILL, which works on a paused one too, and returns when it is
// gone. A test server needs no orderly shutdown.
func (p *instance) kill() {
	if p.runs != nil {
		p.runs.Kill()
	}
}

// setPaused suspends the process, or lets it go on.
func (p *instance) setPaused(paused bool) error {
	if !p.running() {
		return fmt.Errorf("redistest: the server at %s is not running", p.addr())
	}
	p.paused = paused
	if paused {
		return p.runs.Suspend()
	}
	return p.runs.Resume()
}

// do sends one command to this process, on a connection of its own. A paused process is not
// asked; any other has all the time that a busy machine may need.
func (p *instance) do(command ...string) rueidis.RedisResult {
	if p.paused {
		return rueidis.NewErrorResult(fmt.Errorf("redistest: the server at %s is paused", p.addr()))
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	option := observer(rueidis.ClientOption{InitAddress: []string{p.addr()}, DisableCache: true, ForceSingleClient: true})
	option.AlwaysRESP2 = true // in RESP3 texts begin with "txt:", since rueidis leaves verbatim strings as they are
	client, err := rueidis.NewClient(option)
	if client != nil { // with an error too, since ForceSingleClient: rueidis would dial again on use
		defer client.Close()
	}
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	return client.Do(ctx, client.B().Arbitrary(command...).Build())
}

// hopeless marks an error that a retry cannot resolve.
type hopeless struct{ error }

// eventually calls try until it returns nil, or a hopeless error, or patience ends. It has to
// poll: no server announces that it is ready.
func eventually(try func() error) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err := try()
		if err == nil || errors.As(err, new(hopeless)) || time.Now().After(deadline) {
			return err
		}
	}
}
