package once

import (
	"errors"

	"github.com/go-rlock/rlock/rlock/internal/contract"
)

var (
	// ErrClosed is the error of calls during and after Close.
	ErrClosed = errors.New("once: the group is closed")
	// ErrNested is the error of a Do within the function of the same key, by groups of one client:
	// the call would wait for itself. Nothing was run.
	ErrNested = errors.New("once: Do within the function of the same key")
	// ErrVoid is the error of a caller whose function ran while its lock was lost, if there is no
	// other value. The function may have run elsewhere since then, and is not run a second time for
	// this caller.
	ErrVoid = errors.New("once: the lock was lost while the function ran, and its value is void")
)

// ForAll marks an error of a function as a result: it is stored, and the other callers get it as a
// [*Shared]. Any other error goes to the caller whose function returned it, and the next caller
// that waits runs its own function. The mark counts for one function: a function that calls Do for
// another key, and returns an error that is marked there, has to mark it again. ForAll(nil) is nil.
func ForAll(err error) error {
	if err == nil {
		return nil
	}
	return &forAll{err}
}

type forAll struct{ error }

func (e *forAll) Unwrap() error { return e.error }

// An ownError is a marked error without its mark. The caller whose function returned the error gets
// it: the caller may be the function of another key, where the error is no result.
type ownError struct{ err error }

// unmarked returns the error of a function for the caller whose function it is.
func unmarked(err error) error {
	if err == nil {
		return nil
	}
	return &ownError{err}
}

func (e *ownError) Error() string        { return e.err.Error() }
func (e *ownError) Is(target error) bool { return errors.Is(e.err, target) }

func (e *ownError) As(target any) bool {
	if _, marks := target.(**forAll); marks {
		return false
	}
	return errors.As(e.err, target)
}

// Shared is the text of an error that another caller's function has marked with [ForAll].
type Shared struct{ Text string }

func (e *Shared) Error() string { return e.Text }

// PanicError is the error of a caller whose function has panicked. Value is the value of the panic,
// or nil if the function has called runtime.Goexit; Stack is the stack of the function, as text.
// PanicError wraps a Value that is an error.
type PanicError = contract.PanicError
