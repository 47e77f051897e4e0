package contract

import "fmt"

// A PanicError is the panic of a user's function in another goroutine than its caller's. It is
// passed to the caller, with the stack at which the panic began.
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
