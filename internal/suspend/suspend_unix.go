//go:build unix

package suspend

import (
	"os"
	"syscall"
)

// Process asks the kernel to stop p, and does not wait until p has stopped. The
// error is that of [os.Process.Signal]. It may be called concurrently.
func Process(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// Resume lets a process that is suspended continue. It does nothing to one that is
// not. The error is that of [os.Process.Signal]. It may be called concurrently.
func Resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
