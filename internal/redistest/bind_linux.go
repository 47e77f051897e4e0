package redistest

import (
	"os/exec"
	"syscall"
)

// bind makes the kernel kill the process when the thread that starts it ends (prctl(2),
// PR_SET_PDEATHSIG). "Thread" is meant literally (golang.org/issue/27505): see attend.
func bind(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
