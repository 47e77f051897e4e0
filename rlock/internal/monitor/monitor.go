package monitor

import (
	"log/slog"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/background"
)

// A Redis runs work in the background. It is a [wire.Redis].
type Redis interface {
	// Start calls work in a goroutine that Close waits for, and reports whether it did. Done is
	// closed by Close.
	Start(work func()) bool
	Done() <-chan struct{}
}

// A Config is what a [Watcher] is made of. All fields but the times are set.
type Config struct {
	Source Source
	Redis  Redis
	Logger *slog.Logger

	// LongHold and LongWait are the times after which a hold and a wait are logged; 0 for never.
	LongHold, LongWait time.Duration

	ReleaseDropped bool // a hold whose handle was dropped is released
}

// A Watcher tells people about holds and waits of a client that last too long. Its methods may be
// called concurrently.
type Watcher struct {
	Config
	waits background.Task // looks at waits that last
	holds background.Task // looks at holds that last
}

// New returns the Watcher of a client. The Watcher ends when the client closes.
func New(c Config) *Watcher {
	d := &Watcher{Config: c}
	d.waits = background.Task{Start: c.Redis.Start, Done: c.Redis.Done(), Work: (&waitWatch{Watcher: d}).work}
	d.holds = background.Task{Start: c.Redis.Start, Done: c.Redis.Done(), Work: (&holdWatch{Watcher: d}).work}
	return d
}

// pausePerLook is the least ratio of a pause to the look before it.
const pausePerLook = 10
