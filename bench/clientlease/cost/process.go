package cost

import (
	"time"

	"golang.org/x/sys/unix"
)

// processTime returns the CPU time that this process has used.
func processTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
