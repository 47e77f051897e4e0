package launch

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

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
		return "", fmt.Errorf("launch: a process has not answered for %v", limit)
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
		return fmt.Errorf("launch: read the answers of a process: %w", t.broken)
	}
	if !t.cmd.ProcessState.Exited() {
		return ErrKilled
	}
	if said := strings.TrimSpace(t.errors.String()); said != "" {
		return fmt.Errorf("launch: a process ended: %s", said)
	}
	return fmt.Errorf("launch: a process ended: %w", err)
}
