package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// ErrKilled means that a process was killed before it answered.
var ErrKilled = errors.New("redistest: the process was killed")

// longest is the longest line of output: a report of the benchmark has its histograms.
const longest = 16 << 20

// A Process is one that this program has started. Its methods may be called concurrently, Say
// by one goroutine at a time.
type Process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	gone   chan struct{} // closed when it has ended
	broken error         // why its output could not be read; set before gone is closed
}

// Self returns the command that starts this program again, with a variable of the environment
// ("NAME=value") that tells it its role.
func Self(role string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
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
		return nil, err
	}
	started := make(chan error)
	go p.attend(out, hear, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// attend starts the process and is there until it has ended.
func (p *Process) attend(out io.ReadCloser, hear func(string), started chan<- error) {
	runtime.LockOSThread() // the thread must outlive the process: see bind
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	if err != nil {
		started <- fmt.Errorf("redistest: %w", err)
		return
	}
	started <- nil
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
	_ = p.cmd.Wait() // its ProcessState says how it ended
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

// Suspend stops the process as an overloaded machine does, and does not wait until it has stopped.
// Its connections and its memory stay as they are. The error is that of [os.Process.Signal]; a
// system without SIGSTOP, as Windows, always returns one.
func (p *Process) Suspend() error { return p.cmd.Process.Signal(suspend) }

// Resume lets a process that is suspended go on.
func (p *Process) Resume() error { return p.cmd.Process.Signal(resume) }

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

// A Talk is a process that is told lines, and answers each with one. Its methods may be called
// concurrently, but one question is asked at a time.
type Talk struct {
	*Process
	lines  chan string
	errors bytes.Buffer
}

// Converse starts a command for a talk. Its errors belong to the talk.
func Converse(cmd *exec.Cmd) (t *Talk, err error) {
	t = &Talk{lines: make(chan string, 4)}
	cmd.Stderr = &t.errors
	if t.Process, err = Start(cmd, func(line string) { t.lines <- line }); err != nil {
		return nil, err
	}
	return t, nil
}

// Tell is Say, with the error that tells why the process ended.
func (t *Talk) Tell(line string) error {
	if err := t.Say(line); err != nil {
		return t.failure(err)
	}
	return nil
}

// Hear returns the next line, or an error if there is none within the limit: [ErrKilled], or one
// with what the process wrote to its standard error.
func (t *Talk) Hear(limit time.Duration) (string, error) {
	select {
	case line := <-t.lines:
		return line, nil
	case <-t.gone:
	case <-time.After(limit):
		return "", fmt.Errorf("redistest: a process has not answered for %v", limit)
	}
	select {
	case line := <-t.lines: // its last words
		return line, nil
	default:
		return "", t.failure(io.ErrUnexpectedEOF)
	}
}

// Kill is that of a process, and drops what it has said.
func (t *Talk) Kill() {
	_ = t.cmd.Process.Kill()
	t.drain()
}

// End is that of a process, and drops what it says.
func (t *Talk) End(patience time.Duration) {
	go t.drain()
	t.Process.End(patience)
}

// drain drops all lines until the process has ended.
func (t *Talk) drain() {
	for {
		select {
		case <-t.lines:
		case <-t.gone:
			return
		}
	}
}

// failure returns why the process ended: its last output, or err.
func (t *Talk) failure(err error) error {
	t.drain()
	if t.broken != nil {
		return fmt.Errorf("redistest: read the answers of a process: %w", t.broken)
	}
	if !t.cmd.ProcessState.Exited() {
		return ErrKilled
	}
	if said := strings.TrimSpace(t.errors.String()); said != "" {
		return fmt.Errorf("redistest: a process ended: %s", said)
	}
	return fmt.Errorf("redistest: a process ended: %w", err)
}
