// Package standin stands for the test that redistest expects, so that a program can start its servers:
//
//	t := &standin.Test{Dir: dir}
//	defer t.Close()
//	err := standin.Attempt(func() { server = redistest.Sentinel(t) })
//
// A failure of the test is the error of Attempt; outside of it, a panic.
package standin

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/go-rlock/rlock/internal/redistest"
)

// A Test has the methods that redistest calls; the embedded nil has the rest of the interface.
type Test struct {
	testing.TB
	Dir string // in which the servers have their folders, "" for the system's

	cleanups []func()
}

// A failure is the error with which a test would have failed.
type failure struct{ error }

// Helper does nothing.
func (t *Test) Helper() {}

// Logf does nothing.
func (t *Test) Logf(string, ...any) {}

// Cleanup calls f in Close.
func (t *Test) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

// Skip is Fatal.
func (t *Test) Skip(args ...any) { t.Fatal(args...) }

// Skipf is Fatalf.
func (t *Test) Skipf(format string, args ...any) { t.Fatalf(format, args...) }

// Fatalf fails the attempt.
func (t *Test) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// Fatal fails the attempt.
func (t *Test) Fatal(args ...any) {
	if err, ok := args[0].(error); ok && len(args) == 1 {
		panic(failure{err})
	}
	panic(failure{errors.New(fmt.Sprint(args...))})
}

// TempDir returns a new folder in Dir, which Close removes unless Dir was given.
func (t *Test) TempDir() string {
	dir, err := os.MkdirTemp(t.Dir, "servers")
	if err != nil {
		t.Fatal(err)
	}
	if t.Dir == "" {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
	}
	return dir
}

// Redis starts one server of the program that redistest chooses, in memory only. The caller stops it.
func Redis() (addr string, stop func(), err error) {
	t := &Test{}
	if err := Attempt(func() { addr = redistest.Standalone(t, "--maxclients", "20000").Addr() }); err != nil {
		t.Close()
		return "", nil, err
	}
	return addr, t.Close, nil
}

// Close does what a test does at its end.
func (t *Test) Close() {
	for _, f := range slices.Backward(t.cleanups) {
		f()
	}
	t.cleanups = nil
}

// Attempt runs f, and returns the error with which a test would have failed in it.
func Attempt(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	f()
	return nil
}
