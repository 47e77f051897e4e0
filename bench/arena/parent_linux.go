package arena

import "syscall"

// dieWithParent has the kernel end a process when the benchmark ends, however it
// does.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
