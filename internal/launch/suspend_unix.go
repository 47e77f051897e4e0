//go:build unix

package launch

import (
	"os"
	"syscall"
)

// Suspend asks the kernel to stop p, and does not wait until p has stopped. Its connections
// and its memory stay as they are; it is not notified. The error is that of
// [os.Process.Signal], or [ErrUnsupported]. It may be called concurrently.
func Suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// Resume lets a process that is suspended continue. It does nothing to one that is not. The
// error is that of [os.Process.Signal], or [ErrUnsupported]. It may be called concurrently.
func Resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
