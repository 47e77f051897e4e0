//go:build unix

package child

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// groupLook is the time between two looks at a group whose command has ended.
const groupLook = 10 * time.Millisecond

// A Process is a command that was started. Its methods may be called concurrently.
type Process struct {
	pid      int // the id of the process, and of its group
	terminal *terminal
	exited   chan Status
	gone     chan struct{}
}

// Start starts the command argv, with this process' standard input and outputs. The error wraps
// [ErrNotFound] or [ErrNotExecutable].
func Start(argv, env []string) (*Process, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, reason(argv[0], err)
	}
	adoptOrphans()
	p := &Process{terminal: openTerminal(), exited: make(chan Status, 1), gone: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel kills the command when the thread that started it ends. So this goroutine
		// keeps its thread, and waits for the command.
		runtime.LockOSThread()
		var err error
		p.pid, err = p.terminal.start(path, argv, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}, Sys: attributes()})
		started <- err
		if err == nil {
			p.collect()
		}
	}()
	if err := <-started; err != nil {
		p.terminal.take() // the group may have been in the foreground before it failed
		return nil, reason(argv[0], err)
	}
	return p, nil
}

func reason(command string, err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", command, ErrNotFound)
	}
	return fmt.Errorf("%s: %w: %w", command, ErrNotExecutable, err)
}

// collect waits for all children of this process, until there is none left.
func (p *Process) collect() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // ECHILD
			return
		case pid != p.pid:
		case status.Stopped():
			p.terminal.resume(p.pid, status.StopSignal())
		default:
			p.terminal.take()
			if status.Signaled() {
				p.exited <- Status{signal: int(status.Signal())}
			} else {
				p.exited <- Status{code: status.ExitStatus()}
			}
			go p.awaitGroup()
		}
	}
}

// awaitGroup closes gone when the group is empty.
func (p *Process) awaitGroup() {
	for p.signalGroup(0) == nil {
		time.Sleep(groupLook)
	}
	close(p.gone)
}

// Exited returns a channel that gets the status when the command has ended, once.
func (p *Process) Exited() <-chan Status { return p.exited }

// Gone returns a channel that is closed when the command and all processes of its group have ended.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Forward passes on a signal that this process got. A signal that asks a process to end goes to the
// whole group, as from a terminal. SIGUSR1 and SIGUSR2 go to the command alone, since they end a
// process that does not expect them.
func (p *Process) Forward(s os.Signal) {
	number, ok := s.(syscall.Signal)
	switch {
	case !ok:
	case number == syscall.SIGUSR1 || number == syscall.SIGUSR2:
		_ = syscall.Kill(p.pid, number)
	default:
		_ = p.signalGroup(number)
	}
}

// Terminate asks all processes of the group to end. Stopped ones continue, so that they get the
// signal.
func (p *Process) Terminate() {
	_ = p.signalGroup(syscall.SIGTERM)
	_ = p.signalGroup(syscall.SIGCONT)
}

// Kill ends all processes of the group.
func (p *Process) Kill() { _ = p.signalGroup(syscall.SIGKILL) }

// signalGroup fails with ESRCH if the group is empty.
func (p *Process) signalGroup(s syscall.Signal) error {
	err := syscall.Kill(-p.pid, s)
	if errors.Is(err, syscall.EPERM) {
		return nil // the process is another user's, but is there
	}
	return err
}

// Forwarded are the signals to be passed on.
var Forwarded = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// Number returns the number of a signal.
func Number(s os.Signal) int {
	number, _ := s.(syscall.Signal)
	return int(number)
}
