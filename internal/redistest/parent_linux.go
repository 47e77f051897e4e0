package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel kill the server when the thread that starts it
// ends (prctl(2), PR_SET_PDEATHSIG), so that a test binary that panics, times
// out or is killed leaves no server behind. "Thread" is meant literally
// (golang.org/issue/27505): see process.launch.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
