//go:build unix

package child

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// A terminal is a terminal that has this process in its foreground; nil if there is none.
type terminal struct {
	file *os.File
	own  int // the group of this process
}

func openTerminal() *terminal {
	file, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	t := &terminal{file: file, own: syscall.Getpgrp()}
	if t.foreground() != t.own {
		t.close()
		return nil
	}
	return t
}

func (t *terminal) close() {
	if t != nil {
		_ = t.file.Close()
	}
}

// foreground returns the group in the foreground, 0 if that is not known.
func (t *terminal) foreground() int {
	group, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// start starts a command whose group takes the foreground before the command executes anything. The
// child asks for that while it is in the background, for which the kernel would stop it with
// SIGTTOU: so this signal is ignored. The command inherits that, and may write to the terminal from
// the background in spite of "stty tostop".
func (t *terminal) start(path string, argv []string, attributes *syscall.ProcAttr) (pid int, err error) {
	if t != nil {
		signal.Ignore(syscall.SIGTTOU)
		attributes.Sys.Foreground, attributes.Sys.Ctty = true, int(t.file.Fd())
	}
	return syscall.ForkExec(path, argv, attributes)
}

// take puts this process back into the foreground. SIGTTOU is ignored since start.
func (t *terminal) take() {
	if t == nil {
		return
	}
	_ = unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, t.own)
	t.close()
}

// resume continues a group that the terminal has stopped.
func (t *terminal) resume(group int, by syscall.Signal) {
	if t == nil || t.foreground() != group {
		return
	}
	switch by {
	case syscall.SIGTSTP:
		_, _ = t.file.WriteString("rlock: the command holds a lock, and is not suspended\r\n")
	case syscall.SIGTTIN, syscall.SIGTTOU:
	default: // another process stopped it on purpose
		return
	}
	_ = syscall.Kill(-group, syscall.SIGCONT)
}
