package wire

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// A line is a direct connection. While rueidis waits there for an answer, the caller may leave:
// then rueidis gets a timeout, but the connection stays open until the answer
// has come, by which it is known that the command has been executed.
type line struct {
	net.Conn
	open    func() bool // see openCheck
	redis   rueidis.Client
	dialled uint64    // how often the wires had been dialled when the line was opened
	expires time.Time // when its credentials do, zero for never

	used time.Time // when a command was last sent; protected by direct.busy

	mu       sync.Mutex // protects following
	use      uint64     // which command has the line, or none any more
	left     bool       // its caller has left
	answered bool       // the answer has come, at least its beginning
}

// A Leaver is a context that takes one use, which is left when the context ends; also if it has ended. It is
// for a caller that has many commands, since [context.AfterFunc] takes memory each time.
type Leaver interface {
	context.Context
	Leaves(t Use)
}

// A Use is one command's on a direct connection. The zero Use is none.
type Use struct {
	line   *line
	number uint64
}

// Leave ends the wait for the answer, if the use goes on.
func (t Use) Leave() {
	if l := t.line; l != nil {
		l.leave(t.number)
	}
}

// begin returns the next command's use.
func (l *line) begin() Use {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.use++
	l.left, l.answered = false, false
	return Use{l, l.use}
}

// end ends the use, and reports whether the caller has left before the command was answered.
func (l *line) end(answered bool) (left bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.use++
	l.left = l.left && !answered
	return l.left
}

// leave ends the wait for the answer, if that use goes on.
func (l *line) leave(use uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if use == l.use {
		l.left = true
		_ = l.Conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// SetDeadline is called by rueidis before it sends a command.
func (l *line) SetDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left {
		return l.Conn.SetWriteDeadline(t)
	}
	return l.Conn.SetDeadline(t)
}

func (l *line) Write(b []byte) (int, error) {
	l.mu.Lock()
	l.answered = false
	l.mu.Unlock()
	return l.Conn.Write(b)
}

func (l *line) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if n > 0 {
		l.mu.Lock()
		l.answered = true
		l.mu.Unlock()
	}
	return n, err
}

// Close is called by rueidis. It leaves a connection open on which an answer is still to come.
func (l *line) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left {
		return nil
	}
	return l.Conn.Close()
}

// cut ends the connection.
func (l *line) cut() { _ = l.Conn.Close() }

// settled waits until the command whose caller has left is answered, and reports whether it
// was before ctx ended. Then the connection is closed.
func (l *line) settled(ctx context.Context) bool {
	defer l.cut()
	l.mu.Lock()
	answered := l.answered
	l.mu.Unlock()
	if answered {
		return true
	}
	defer context.AfterFunc(ctx, l.cut)()
	_ = l.Conn.SetReadDeadline(time.Time{})
	n, _ := l.Conn.Read(make([]byte, 1))
	return n > 0
}
