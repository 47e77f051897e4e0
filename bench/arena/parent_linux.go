package arena

import "syscall"

// Ours makes a process end when the benchmark does, however it ends, and leaves the interrupt
// key to the benchmark alone.
func Ours() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
