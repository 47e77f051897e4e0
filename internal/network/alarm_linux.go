package network

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// An alarm sleeps to within some ten microseconds, without a thread of its own
// and without spinning: a timerfd in the runtime's epoll. One goroutine sleeps;
// any may stop it.
type alarm struct {
	file    *os.File // nil: not wanted, or not available, as with too many open files
	stopped *sleeper
}

// newAlarm returns an alarm by the kernel's clock, or, for a synctest bubble, by
// Go's.
func newAlarm(kernel bool) *alarm {
	a := &alarm{stopped: newSleeper()}
	if !kernel {
		return a
	}
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err == nil {
		a.file = os.NewFile(uintptr(fd), "timerfd")
	}
	return a
}

// sleep returns after d, or at once when the alarm is stopped.
func (a *alarm) sleep(d time.Duration) {
	if a.file == nil || !a.set(d) {
		a.stopped.sleep(d)
		return
	}
	var expirations [8]byte
	_, _ = a.file.Read(expirations[:])
}

func (a *alarm) set(d time.Duration) bool {
	conn, err := a.file.SyscallConn()
	if err != nil {
		return false
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	// Control leaves the descriptor in non-blocking mode, which Fd would not.
	var refused error
	err = conn.Control(func(fd uintptr) { refused = unix.TimerfdSettime(int(fd), 0, &spec, nil) })
	return err == nil && refused == nil
}

// stop ends the sleep under way and every later one.
func (a *alarm) stop() {
	a.stopped.stop()
	if a.file != nil {
		_ = a.file.Close()
	}
}
