package stage

import (
	"os/exec"
	"syscall"
)

// endWithParent makes a process end when this program does, however it ends, and leaves the
// interrupt key to this program alone.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
