//go:build !linux

package arena

import "syscall"

// Ours leaves the interrupt key to the benchmark alone. Only Linux can end a process with its
// parent: elsewhere a benchmark that is killed may leave processes behind.
func Ours() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
