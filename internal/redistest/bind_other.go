//go:build !linux

package redistest

import "os/exec"

// bind does nothing: only Linux kills a process with its parent.
func bind(*exec.Cmd) {}
