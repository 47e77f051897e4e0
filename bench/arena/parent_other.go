//go:build !linux

package arena

import "syscall"

// dieWithParent needs Linux; elsewhere a benchmark that is killed may leave
// processes behind.
func dieWithParent() *syscall.SysProcAttr { return nil }
