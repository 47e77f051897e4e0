//go:build !unix

package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// A Process is a command that was started. Its methods may be called concurrently.
type Process struct {
	cmd    *exec.Cmd
	exited chan Status
	gone   chan struct{}
}

// Start starts the command argv, with this process' standard input and outputs. The error wraps
// [ErrNotFound] or [ErrNotExecutable].
func Start(argv, env []string) (*Process, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		kind := ErrNotExecutable
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			kind = ErrNotFound
		}
		return nil, fmt.Errorf("%s: %w: %w", argv[0], kind, err)
	}
	p := &Process{cmd: cmd, exited: make(chan Status, 1), gone: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		p.exited <- Status{code: cmd.ProcessState.ExitCode()}
		close(p.gone)
	}()
	return p, nil
}

// Exited returns a channel that gets the status when the command has ended, once.
func (p *Process) Exited() <-chan Status { return p.exited }

// Gone returns a channel that is closed when the command has ended.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Forward does nothing for an interrupt, which the console sends to the command as well, and ends
// the command for any other signal.
func (p *Process) Forward(s os.Signal) {
	if s != os.Interrupt {
		p.Kill()
	}
}

// Terminate ends the command: there is no way to ask it.
func (p *Process) Terminate() { p.Kill() }

// Kill ends the command.
func (p *Process) Kill() { _ = p.cmd.Process.Kill() }

// Forwarded are the signals to be passed on.
var Forwarded = []os.Signal{os.Interrupt}

// Number returns the number of a signal.
func Number(os.Signal) int { return 2 }
