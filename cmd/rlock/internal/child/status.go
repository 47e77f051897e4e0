package child

import "errors"

var (
	// ErrNotFound is returned by [Start] if there is no such command.
	ErrNotFound = errors.New("command not found")
	// ErrNotExecutable is returned by [Start] if the command cannot be executed.
	ErrNotExecutable = errors.New("command cannot be executed")
)

// A Status is the way in which a command has ended.
type Status struct {
	code   int
	signal int // the number of the signal that ended it; 0 if it exited
}

// ExitCode returns the exit code in the form of a shell's $?: the command's exit code, or 128 and
// the number of the signal that ended it.
func (s Status) ExitCode() int {
	if s.signal != 0 {
		return 128 + s.signal
	}
	return s.code
}
