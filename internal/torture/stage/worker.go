package stage

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/suspend"
)

// A Worker is this program, started again to lock. It may be killed and hired again; each
// life is a process of its own. Its methods may be called concurrently, except for Ask, which
// is for one goroutine.
type Worker struct {
	role  string
	job   func(life int) any // the first input of the next life, as JSON
	limit time.Duration

	mu    sync.Mutex // protects following
	lives int
	life  *life // nil while it is dead
}

// A life is one process.
type life struct {
	command *exec.Cmd
	in      io.WriteCloser
	lines   chan string // its output; closed when it has ended
	errors  bytes.Buffer
	broken  error // why its output could not be read; set before lines is closed
}

// ErrKilled is returned by Ask when the process was killed before it answered.
var ErrKilled = errors.New("stage: the worker was killed")

// Hire starts a worker. role is the environment variable, with its value, that tells the
// program its role; job returns the first input of each life, numbered from 0. limit is how
// long it may take to answer.
func (s *Stage) Hire(role string, limit time.Duration, job func(life int) any) (*Worker, error) {
	if err := s.Networks.open(len(s.Workers), s.addresses()); err != nil {
		return nil, err
	}
	w := &Worker{role: role, job: job, limit: limit}
	s.Workers = append(s.Workers, w)
	return w, w.Revive()
}

// Kill ends the process with SIGKILL, even a paused one, and returns when it is gone.
func (w *Worker) Kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life == nil {
		return
	}
	_ = w.life.command.Process.Kill() // fails only if it has ended
	for range w.life.lines {          // until it is gone
	}
	_ = w.life.in.Close()
	w.life = nil
}

// Revive starts the next life, if the last one was killed.
func (w *Worker) Revive() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life != nil {
		return nil
	}
	l, err := w.begin()
	if err != nil {
		return err
	}
	w.life = l
	w.lives++
	return nil
}

// Lives returns the number of lives.
func (w *Worker) Lives() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lives
}

// Pause stops the process with SIGSTOP.
func (w *Worker) Pause() error { return w.send(suspend.Process) }

// Resume lets it go on.
func (w *Worker) Resume() error { return w.send(suspend.Resume) }

func (w *Worker) send(signal func(*os.Process) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life == nil {
		return ErrKilled
	}
	return signal(w.life.command.Process)
}

// Ask sends a word to the process and reads its answer into reply.
func (w *Worker) Ask(word string, reply any) error {
	w.mu.Lock()
	l := w.life
	w.mu.Unlock()
	if l == nil {
		return ErrKilled
	}
	if _, err := io.WriteString(l.in, word+"\n"); err != nil {
		return l.failure(err)
	}
	select {
	case line, ok := <-l.lines:
		if !ok {
			return l.failure(io.ErrUnexpectedEOF)
		}
		if err := json.Unmarshal([]byte(line), reply); err != nil {
			return fmt.Errorf("stage: answer to %s: %w", word, err)
		}
		return nil
	case <-time.After(w.limit):
		return fmt.Errorf("stage: a worker has not answered %s for %v", word, w.limit)
	}
}

// AskAll sends a word to all workers at once, and returns their answers.
func AskAll[T any](s *Stage, word string) ([]T, error) {
	answers, failed := make([]T, len(s.Workers)), make(chan error)
	for i, w := range s.Workers {
		go func() { failed <- w.Ask(word, &answers[i]) }()
	}
	var all error
	for range s.Workers {
		all = errors.Join(all, <-failed)
	}
	return answers, all
}

// begin starts a process, tells it its job, and returns when it is ready.
func (w *Worker) begin() (*life, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("stage: %w", err)
	}
	job, err := json.Marshal(w.job(w.lives))
	if err != nil {
		return nil, fmt.Errorf("stage: %w", err)
	}
	l := &life{command: exec.Command(self), lines: make(chan string, 4)}
	l.command.Env = append(os.Environ(), w.role)
	l.command.Stderr = &l.errors
	endWithParent(l.command)
	if l.in, err = l.command.StdinPipe(); err != nil {
		return nil, fmt.Errorf("stage: %w", err)
	}
	out, err := l.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("stage: %w", err)
	}
	if err := l.command.Start(); err != nil {
		return nil, fmt.Errorf("stage: %w", err)
	}
	go func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			l.lines <- lines.Text()
		}
		l.broken = lines.Err()
		_ = out.Close() // a worker that goes on writing must not wait for a reader
		_ = l.command.Wait()
		close(l.lines)
	}()
	if _, err := l.in.Write(append(job, '\n')); err != nil {
		return nil, l.failure(err)
	}
	return l, nil
}

// failure returns why a process ended: its last output, or err.
func (l *life) failure(err error) error {
	for range l.lines { // until it has ended
	}
	if l.broken != nil {
		return fmt.Errorf("stage: read the answers of a worker: %w", l.broken)
	}
	if l.command.ProcessState != nil && !l.command.ProcessState.Exited() {
		return ErrKilled
	}
	if said := strings.TrimSpace(l.errors.String()); said != "" {
		return fmt.Errorf("stage: a worker ended: %s", said)
	}
	return fmt.Errorf("stage: a worker ended: %w", err)
}
