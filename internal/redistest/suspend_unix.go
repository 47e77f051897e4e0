//go:build unix

package redistest

import (
	"os"
	"syscall"
)

// The signals of Suspend and Resume.
var suspend, resume os.Signal = syscall.SIGSTOP, syscall.SIGCONT
