package rlocktest_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// A recorder stands for the testing.T of an inner test. The outer test reads its errors.
type recorder struct {
	testing.TB

	mu       sync.Mutex // protects following
	errors   []string
	log      []string
	cleanups []func()
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Log(args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprint(args...))
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

// end ends the inner test.
func (r *recorder) end() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
	r.cleanups = nil
}

// told returns the errors since the last call, as one text.
func (r *recorder) told() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := strings.Join(r.errors, "\n")
	r.errors = nil
	return text
}
