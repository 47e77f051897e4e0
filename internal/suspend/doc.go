// Package suspend stops the processes that tests start, as an overloaded machine or a
// snapshot of a virtual one does, and resumes them. The connections and the memory of a
// suspended process stay as they are; the process is not notified.
//
// It needs the signals SIGSTOP and SIGCONT. Where they do not exist, as on Windows,
// both functions return [ErrUnsupported].
package suspend

import "errors"

// ErrUnsupported is returned on a system that cannot suspend a process.
var ErrUnsupported = errors.New("suspend: this system has no SIGSTOP")
