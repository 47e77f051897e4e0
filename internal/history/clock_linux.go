package history

import "golang.org/x/sys/unix"

// machine reads CLOCK_MONOTONIC, which all processes of the machine share, and
// which cannot be set.
func machine() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // the kernel has no such clock: there is no Linux without
	}
	return now.Nano()
}
