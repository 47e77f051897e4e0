package arena

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/go-rlock/rlock/bench/worker"
)

// A process is this program, started again in another role, or a contender's own program.
type process struct {
	command *exec.Cmd
	in      io.WriteCloser
	lines   chan string // its output, line by line; closed when it has ended
	errors  bytes.Buffer
}

func start(role string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("arena: %w", err)
	}
	command := exec.Command(self)
	command.Env = append(os.Environ(), worker.Role+"="+role)
	return launch(command)
}

func launch(command *exec.Cmd) (p *process, err error) {
	p = &process{command: command, lines: make(chan string, 4)}
	p.command.Stderr = &p.errors
	p.command.SysProcAttr = Ours()
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, fmt.Errorf("arena: %w", err)
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("arena: %w", err)
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("arena: %w", err)
	}
	go func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 16<<20) // a report with its histograms
		for lines.Scan() {
			p.lines <- lines.Text()
		}
		_ = p.command.Wait()
		close(p.lines)
	}()
	return p, nil
}

// program is the same for commands whose processes can do each other's jobs.
func program(command *exec.Cmd) string { return strings.Join(command.Args, " ") }

func (p *process) say(line string) error {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		return p.failure(err)
	}
	return nil
}

// hear returns the next line, or an error when there is none within the limit.
func (p *process) hear(limit time.Duration) (string, error) {
	select {
	case line, ok := <-p.lines:
		if !ok {
			return "", p.failure(io.ErrUnexpectedEOF)
		}
		return line, nil
	case <-time.After(limit):
		return "", fmt.Errorf("arena: a process has not answered for %v", limit)
	}
}

// failure returns err, or the last output of the process.
func (p *process) failure(err error) error {
	for range p.lines { // until it has ended
	}
	if said := strings.TrimSpace(p.errors.String()); said != "" {
		said, _, _ = strings.Cut(said, "\n")
		return fmt.Errorf("arena: %s", said)
	}
	return fmt.Errorf("arena: a process ended early: %w", err)
}

// end ends the process, by force if necessary, and waits for it.
func (p *process) end(patience time.Duration) {
	_ = p.in.Close()
	timeout := time.After(patience)
	for {
		select {
		case _, ok := <-p.lines:
			if !ok {
				return
			}
		case <-timeout:
			_ = p.command.Process.Kill()
			timeout = nil
		}
	}
}

func (p *process) report(limit time.Duration) (r worker.Report, err error) {
	line, err := p.hear(limit)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		return r, fmt.Errorf("arena: report: %w", err)
	}
	return r, nil
}
