package launch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

var (
	// ErrUnsupported is returned by Suspend and Resume on a system that cannot suspend a
	// process: one without SIGSTOP, as Windows.
	ErrUnsupported = errors.New("launch: this system has no SIGSTOP")
	// ErrKilled means that a process was killed before it answered.
	ErrKilled = errors.New("launch: the process was killed")
)

// longest is the longest line of output: a report of the benchmark has its histograms.
const longest = 16 << 20

// A Process is one that this program has started. Its methods may be called concurrently, Say
// by one goroutine at a time.
type Process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	gone   chan struct{} // closed when it has ended
	broken error         // why its output could not be read; set before gone is closed
	ended  error         // that of exec.Cmd.Wait; set before gone is closed
}

// Self returns the command that starts this program again, with a variable of the environment
// ("NAME=value") that tells it its role.
func Self(role string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), role)
	return cmd, nil
}

// Start starts a command. hear gets each line of its output, from one goroutine, and delays the
// end of the process while it does not return; if it is nil, the output goes where the command
// says.
func Start(cmd *exec.Cmd, hear func(line string)) (*Process, error) {
	bind(cmd)
	p := &Process{cmd: cmd, gone: make(chan struct{})}
	var out io.ReadCloser
	var err error
	if p.in, err = cmd.StdinPipe(); err == nil && hear != nil {
		out, err = cmd.StdoutPipe()
	}
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	started := make(chan error)
	go p.attend(out, hear, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	return p, nil
}

// attend starts the process and is there until it has ended.
func (p *Process) attend(out io.ReadCloser, hear func(string), started chan<- error) {
	runtime.LockOSThread() // the thread must outlive the process: see bind
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	defer close(p.gone)
	if hear != nil {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, longest)
		for lines.Scan() {
			hear(lines.Text())
		}
		p.broken = lines.Err()
		_ = out.Close() // a process that goes on writing must not wait for a reader
	}
	p.ended = p.cmd.Wait()
}

// ID returns the number that the kernel has given to the process.
func (p *Process) ID() int { return p.cmd.Process.Pid }

// Say writes a line to the input of the process.
func (p *Process) Say(line string) error {
	_, err := io.WriteString(p.in, line+"\n")
	return err
}

// Gone is closed when the process has ended, and hear has returned from its last line.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Wait returns when the process has ended, with the error of [exec.Cmd.Wait]: nil for status 0.
func (p *Process) Wait() error {
	<-p.gone
	return p.ended
}

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

// Suspend and Resume are the functions of these names, for this process.
func (p *Process) Suspend() error { return Suspend(p.cmd.Process) }

// Resume undoes Suspend.
func (p *Process) Resume() error { return Resume(p.cmd.Process) }

// Kill ends the process with SIGKILL, even a suspended one, and returns when it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended
	<-p.gone
}

// End closes the input, and kills the process if it has not ended in time. It returns when it is
// gone, and reports whether it has ended by itself.
func (p *Process) End(patience time.Duration) bool {
	_ = p.in.Close() // fails only if it has ended
	select {
	case <-p.gone:
		return true
	case <-time.After(patience):
		p.Kill()
		return false
	}
}
