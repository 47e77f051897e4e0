package stage

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
)

// A Worker is a process that locks, mostly this program in another role. It may be killed and
// revived; each life is a process of its own. Its methods may be called concurrently, except for
// Ask, which is for one goroutine.
type Worker struct {
	command func() (*exec.Cmd, error)
	job     func(life int) any
	limit   time.Duration

	mu    sync.Mutex // guards the fields below
	lives int
	life  *redistest.Talk // nil while it is dead
}

// Hire starts a worker. command returns the command of each life, and job its first input, as JSON;
// lives are numbered from 0. limit is how long it may take to answer.
func (s *Stage) Hire(command func() (*exec.Cmd, error), limit time.Duration, job func(life int) any) error {
	w := &Worker{command: command, job: job, limit: limit}
	s.Workers = append(s.Workers, w)
	return w.Revive()
}

// Kill ends the process with SIGKILL, even a paused one, and returns when it is gone.
func (w *Worker) Kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life != nil {
		w.life.Kill()
		w.life = nil
	}
}

// Revive starts the next life, if the last one was killed.
func (w *Worker) Revive() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life != nil {
		return nil
	}
	job, err := json.Marshal(w.job(w.lives))
	if err != nil {
		return fmt.Errorf("stage: %w", err)
	}
	command, err := w.command()
	if err != nil {
		return err
	}
	if w.life, err = redistest.Converse(command); err != nil {
		return err
	}
	w.lives++
	return w.life.Tell(string(job))
}

// Lives returns the number of lives.
func (w *Worker) Lives() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lives
}

// Pause stops the process with SIGSTOP. The error of a dead one is [redistest.ErrKilled].
func (w *Worker) Pause() error { return w.send((*redistest.Process).Suspend) }

// Resume lets it go on.
func (w *Worker) Resume() error { return w.send((*redistest.Process).Resume) }

func (w *Worker) send(signal func(*redistest.Process) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life == nil {
		return redistest.ErrKilled
	}
	return signal(w.life.Process)
}

// Ask sends a word to the process and reads its answer into reply. The error is
// [redistest.ErrKilled] if the process was killed before it answered.
func (w *Worker) Ask(word string, reply any) error {
	w.mu.Lock()
	l := w.life
	w.mu.Unlock()
	if l == nil {
		return redistest.ErrKilled
	}
	if err := l.Tell(word); err != nil {
		return fmt.Errorf("stage: %s: %w", word, err)
	}
	line, err := l.Hear(w.limit)
	if err == nil {
		err = json.Unmarshal([]byte(line), reply)
	}
	if err != nil {
		return fmt.Errorf("stage: answer to %s: %w", word, err)
	}
	return nil
}

// AskAll sends a word to all workers at once, and returns their answers.
func AskAll[T any](s *Stage, word string) ([]T, error) {
	answers, failed := make([]T, len(s.Workers)), make([]error, len(s.Workers))
	var all sync.WaitGroup
	for i, w := range s.Workers {
		all.Go(func() { failed[i] = w.Ask(word, &answers[i]) })
	}
	all.Wait()
	return answers, errors.Join(failed...)
}
