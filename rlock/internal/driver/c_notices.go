package driver

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// maxMessages is how many messages wait at most for the Logger.
	maxMessages = 1000
	// lastWords is how long Close waits at most for notices to be delivered.
	lastWords = time.Second
)

// notices call the code of the user that is told of events, as the Logger's handler:
// one call after the other, in the order of the events, in a goroutine that exists
// while there is something to tell. So code that is slow delays no lock, and may call
// the client. Nothing of the user's is called by the keeper or with a mutex held: what
// is to be told goes through here. If the user's code is too slow, the events that find
// no room are counted, and it is told how many.
type notices struct {
	missed func(n int) // called as a notice is, where n notices found no room
	most   int         // how many wait at most for the one before them

	panicked sync.Once // a panic of the user's code was reported

	mu      sync.Mutex // protects following
	waiting []func()
	lost    int           // how many found no room since the last of waiting
	running bool          // the goroutine exists
	closed  bool          // nothing is accepted
	silent  chan struct{} // closed when the goroutine ends after close
}

func newNotices(most int, missed func(n int)) *notices {
	return &notices{missed: missed, most: most, silent: make(chan struct{})}
}

// Tell queues the notice. It waits for nothing, and may be called with a mutex held.
func (n *notices) Tell(notice func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed:
		return
	case len(n.waiting) == n.most:
		n.lost++
		return
	}
	n.waiting = append(n.waiting, notice)
	if !n.running {
		n.running = true
		go n.run()
	}
}

func (n *notices) run() {
	for notice := n.next(); notice != nil; notice = n.next() {
		n.deliver(notice)
	}
}

// deliver calls the user's code. Its panic is written to the standard error, once: where it could be logged is
// what may have panicked.
func (n *notices) deliver(notice func()) {
	defer func() {
		if p := recover(); p != nil {
			n.panicked.Do(func() {
				fmt.Fprintf(os.Stderr, "rlock: the handler of Config.Logger panicked; its next panics are not reported: %v\n\n%s", p, debug.Stack())
			})
		}
	}()
	notice()
}

// next returns nil when the goroutine must end.
func (n *notices) next() (notice func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case len(n.waiting) > 0:
		notice = n.waiting[0]
		n.waiting = n.waiting[1:]
	case n.lost > 0:
		lost := n.lost
		n.lost = 0
		notice = func() { n.missed(lost) }
	default:
		n.waiting, n.running = nil, false
		if n.closed {
			close(n.silent)
		}
	}
	return notice
}

// close accepts no more notices, and waits until those that were accepted have been
// delivered, but not for long: the ones that are left then are dropped, and the
// goroutine ends as soon as the user's code returns.
func (n *notices) close() {
	n.mu.Lock()
	n.closed = true
	running := n.running
	n.mu.Unlock()
	if !running {
		return
	}
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-n.silent:
	case <-timer.C:
		n.mu.Lock()
		n.waiting, n.lost = nil, 0
		n.mu.Unlock()
	}
}

// A noticeHandler is a [slog.Handler] that hands its records to another one by notices.
type noticeHandler struct {
	notices *notices
	to      slog.Handler
}

// newLogger returns a logger that writes to the given one by notices.
func newLogger(to *slog.Logger) (*slog.Logger, *notices) {
	n := newNotices(maxMessages, func(n int) {
		to.Warn("rlock: the Logger was too slow: messages were dropped", "count", n)
	})
	return slog.New(noticeHandler{n, to.Handler()}), n
}

// Enabled leaves the decision to Handle, since the other handler is the user's.
func (h noticeHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h noticeHandler) Handle(ctx context.Context, record slog.Record) error {
	h.notices.Tell(func() {
		if h.to.Enabled(ctx, record.Level) {
			_ = h.to.Handle(ctx, record)
		}
	})
	return nil
}

func (h noticeHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return noticeHandler{h.notices, h.to.WithAttrs(attrs)}
}

func (h noticeHandler) WithGroup(name string) slog.Handler {
	return noticeHandler{h.notices, h.to.WithGroup(name)}
}
