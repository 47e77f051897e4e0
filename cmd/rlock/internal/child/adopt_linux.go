package child

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes processes that outlive their parent children of this process.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
