package stage

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
)

// A keeper stands for the test that redistest expects: it has the methods that redistest
// calls, and the embedded nil has the rest of the interface.
type keeper struct {
	testing.TB
	dir      string
	cleanups []func()
}

// A failure is the error with which a test would have failed.
type failure struct{ error }

func (k *keeper) Helper()             {}
func (k *keeper) Logf(string, ...any) {}
func (k *keeper) Cleanup(f func())    { k.cleanups = append(k.cleanups, f) }
func (k *keeper) Skip(args ...any)    { k.Fatal(args...) }

func (k *keeper) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

func (k *keeper) Fatal(args ...any) {
	if err, ok := args[0].(error); ok && len(args) == 1 {
		panic(failure{err})
	}
	panic(failure{errors.New(fmt.Sprint(args...))})
}

func (k *keeper) TempDir() string {
	dir, err := os.MkdirTemp(k.dir, "servers")
	if err != nil {
		k.Fatal(err)
	}
	return dir
}

func (k *keeper) close() {
	for _, f := range slices.Backward(k.cleanups) {
		f()
	}
	k.cleanups = nil
}

// attempt runs f, and returns the error with which a test would have failed in it.
func attempt(f func()) (err error) {
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
