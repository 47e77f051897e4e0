package worker

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// Role is set in the environment of a process that is a worker.
const Role = "RLOCK_TORTURE_WORKER=1"

// Main runs a worker, if this process is one, and exits. Otherwise it returns at once: call
// it first in main and in TestMain.
func Main() {
	name, value, _ := strings.Cut(Role, "=")
	if os.Getenv(name) != value {
		return
	}
	if err := Run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Run does one Job, and then obeys the words that it reads.
func Run(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() {
		return fmt.Errorf("worker: no job: %w", io.ErrUnexpectedEOF)
	}
	var job Job
	if err := json.Unmarshal(lines.Bytes(), &job); err != nil {
		return fmt.Errorf("worker: job: %w", err)
	}
	w, err := begin(job)
	if err != nil {
		return err
	}
	end := sync.OnceValue(w.end)
	defer end() // also when its parent is gone
	answers := json.NewEncoder(out)
	for lines.Scan() {
		var answer any
		switch word := lines.Text(); word {
		case "storm":
			w.gate.open()
			answer = Done{}
		case "settle":
			answer = w.settle()
		case "cancels":
			answer = w.cancels()
		case "idle":
			answer = w.idle()
		case "end":
			return answers.Encode(end())
		default:
			return fmt.Errorf("worker: unknown word %q", word)
		}
		if err := answers.Encode(answer); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("worker: read a word: %w", err)
	}
	return nil
}
