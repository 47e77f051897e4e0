//go:build unix && !linux

package child

import "syscall"

// adoptOrphans does nothing: the orphans are those of the process with the id 1.
func adoptOrphans() {}

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
