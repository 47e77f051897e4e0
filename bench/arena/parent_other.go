//go:build !linux

package arena

import "syscall"

// ours leaves the interrupt key to the benchmark alone. To make a process end
// with it needs Linux: elsewhere one that is killed may leave others behind.
func ours() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
