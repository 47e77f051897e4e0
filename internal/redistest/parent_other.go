//go:build !linux

package redistest

import "os/exec"

// dieWithParent does nothing: only Linux kills a child with its parent. A test
// binary that ends in an orderly way removes its servers everywhere.
func dieWithParent(*exec.Cmd) {}
