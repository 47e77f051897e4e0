package wire

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// A line is a direct connection. While rueidis waits there for an answer, the caller may leave:
// then rueidis is told that the time is over, but the connection stays open until the answer
// has come, by which it is known that the command has been executed.
type line struct {
	net.Conn
	open    func() bool // see openCheck
	redis   rueidis.Client
	dialled uint64    // how often the wires had been dialled when the line was opened
	expires time.Time // when its credentials do, zero for never

	used time.Time // when a command was last sent; protected by direct.busy

	mu       sync.Mutex // protects following
	turn     uint64     // which command has the line, or none any more
	left     bool       // its caller has left
	answered bool       // the answer has come, at least its beginning
}

// begin returns the number of the next command's turn.
func (w *line) begin() (turn uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn++
	w.left, w.answered = false, false
	return w.turn
}

// end ends the turn, and reports whether the caller has left.
func (w *line) end() (left bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn++
	return w.left
}

// leave ends the wait for the answer, if that turn goes on.
func (w *line) leave(turn uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if turn == w.turn {
		w.left = true
		_ = w.Conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// SetDeadline is called by rueidis before it sends a command.
func (w *line) SetDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left {
		return w.Conn.SetWriteDeadline(t)
	}
	return w.Conn.SetDeadline(t)
}

func (w *line) Write(b []byte) (int, error) {
	w.mu.Lock()
	w.answered = false
	w.mu.Unlock()
	return w.Conn.Write(b)
}

func (w *line) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if n > 0 {
		w.mu.Lock()
		w.answered = true
		w.mu.Unlock()
	}
	return n, err
}

// Close is called by rueidis. It leaves a connection open on which an answer is still to come.
func (w *line) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left {
		return nil
	}
	return w.Conn.Close()
}

// cut ends the connection.
func (w *line) cut() { _ = w.Conn.Close() }

// settled waits until the command whose caller has left is answered, and reports whether it
// was before ctx ended. Then the connection is closed.
func (w *line) settled(ctx context.Context) bool {
	defer w.cut()
	w.mu.Lock()
	answered := w.answered
	w.mu.Unlock()
	if answered {
		return true
	}
	defer context.AfterFunc(ctx, w.cut)()
	_ = w.Conn.SetReadDeadline(time.Time{})
	n, _ := w.Conn.Read(make([]byte, 1))
	return n > 0
}
