package redistest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

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
	within []string          // the command that runs it elsewhere, see Apart
	dial   dial              // the way there, nil for the usual one

	runs   *Process // the last one; nil before the first launch
	paused bool     // by pause
}

const confFile = "redis.conf"

// A dial is a DialCtxFn of rueidis.
type dial = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

// newInstance makes one that does not run, with a directory of its own
// below dir, and conf for its configuration.
func newInstance(binary, dir string, port int, conf string, args ...string) *instance {
	p := &instance{binary: binary, port: port, dir: filepath.Join(dir, strconv.Itoa(port)), args: args}
	p.files = map[string]string{confFile: fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %q\n%s", port, p.dir, conf)}
	return p
}

func (p *instance) addr() string            { return loopback(p.port) }
func (p *instance) path(file string) string { return filepath.Join(p.dir, file) }

// launch starts the instance and returns without waiting until it answers. Only the first launch writes its
// files: Redis rewrites them when a role changes, so that a restarted instance knows its role.
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
	line := slices.Concat(p.within, []string{p.binary, p.path(confFile)}, p.args)
	cmd := exec.Command(line[0], line[1:]...)
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
	option.DialCtxFn = p.dial
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
