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

// A Config is what a [Diag] is made of. All fields but the times are set.
type Config struct {
	Source Source
	Redis  Redis
	Logger *slog.Logger

	// LongHold and LongWait are the times after which a hold and a wait are logged; 0 for never.
	LongHold, LongWait time.Duration

	ReleaseDropped bool // a hold whose handle was dropped is released
}

// A Diag tells people about the locks of a client. Its methods may be called concurrently.
type Diag struct {
	Config
	waits background.Task // looks at waits that last
	holds background.Task // looks at holds that last
}

// New returns the Diag of a client. The Diag ends when the client closes.
func New(c Config) *Diag {
	d := &Diag{Config: c}
	d.waits = background.Task{Start: c.Redis.Start, Done: c.Redis.Done(), Work: (&waitWatch{Diag: d}).work}
	d.holds = background.Task{Start: c.Redis.Start, Done: c.Redis.Done(), Work: (&holdWatch{Diag: d}).work}
	return d
}

// pausePerLook is the least ratio of a pause to the look before it.
const pausePerLook = 10
