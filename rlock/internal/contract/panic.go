package contract

import "fmt"

// A PanicError is the panic of a user's function that was called in another goroutine than its
// caller's, for the caller: the stack shows where the panic began.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("a function panicked: %v\n%s", e.Value, e.Stack)
}

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
