package redistest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
)

// A Program stands for the test that the constructors expect, so that a program can start servers:
//
//	p := &redistest.Program{Dir: dir}
//	defer p.Close()
//	err := redistest.Attempt(func() { server = redistest.Sentinel(p) })
//
// It has the methods that they call; the embedded nil has the rest of the interface. A failure
// is the error of Attempt; outside of it, a panic.
type Program struct {
	testing.TB
	Dir string // in which the servers have their folders, "" for the system's

	cleanups []func()
}

// A failure is the error with which a test would have failed.
type failure struct{ error }

// Helper does nothing.
func (p *Program) Helper() {}

// Logf does nothing.
func (p *Program) Logf(string, ...any) {}

// Cleanup calls f in Close.
func (p *Program) Cleanup(f func()) { p.cleanups = append(p.cleanups, f) }

// Skip is Fatal.
func (p *Program) Skip(args ...any) { p.Fatal(args...) }

// Skipf is Fatalf.
func (p *Program) Skipf(format string, args ...any) { p.Fatalf(format, args...) }

// Fatalf fails the attempt.
func (p *Program) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// Fatal fails the attempt.
func (p *Program) Fatal(args ...any) {
	if err, ok := args[0].(error); ok {
		panic(failure{err})
	}
	panic(failure{errors.New(fmt.Sprint(args...))})
}

// TempDir returns a new folder in Dir, which Close removes unless Dir was given.
func (p *Program) TempDir() string {
	dir, err := os.MkdirTemp(p.Dir, "servers")
	if err != nil {
		p.Fatal(err)
	}
	if p.Dir == "" {
		p.Cleanup(func() { _ = os.RemoveAll(dir) })
	}
	return dir
}

// Close does what a test does at its end.
func (p *Program) Close() {
	for _, f := range slices.Backward(p.cleanups) {
		f()
	}
	p.cleanups = nil
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

// Redis starts one server for a program, in memory only. The caller stops it.
func Redis() (addr string, stop func(), err error) {
	p := &Program{}
	if err := Attempt(func() { addr = Standalone(p, "--maxclients", "20000").Addr() }); err != nil {
		p.Close()
		return "", nil, err
	}
	return addr, p.Close, nil
}
