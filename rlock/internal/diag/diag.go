package diag

import (
	"context"
	"log/slog"
	"time"

	"github.com/go-rlock/rlock/pubsub"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Redis sends messages to other clients. It is a [wire.Redis].
type Redis interface {
	Tell(ctx context.Context, client string, m wire.ClientMessage) (listeners int64, err error)
	// Within and Deadline limit the time of one command.
	Within(ctx context.Context) (context.Context, context.CancelFunc)
	Deadline(now time.Time) context.Context
	// Start calls work in a goroutine that Close waits for, and reports whether it did. Done is closed by Close.
	Start(work func()) bool
	Done() <-chan struct{}
}

// A Config is what a [Diag] is made of. All fields but the times are set.
type Config struct {
	Source    Source
	Redis     Redis
	Hub       *pubsub.Hub
	ID        *wire.ID // of the client
	Logger    *slog.Logger
	NoAnswers bool // questions of other clients are not answered

	// After how long a hold and a wait are logged; 0: never.
	LongHold, LongWait time.Duration

	ReleaseDropped bool // a hold whose handle was dropped is released
}

// A Diag tells people about the locks of a client. Its methods may be called concurrently.
type Diag struct {
	Config
	questions chan string // that are not answered yet
	answers   task.Task
	waits     task.Task // looks at waits that last, and holds at holds
	holds     task.Task
}

// New returns the Diag of a client, with which it ends.
func New(c Config) *Diag {
	d := &Diag{Config: c, questions: make(chan string, maxAskers)}
	d.answers = task.Task{Start: c.Redis.Start, Done: c.Redis.Done(), Work: d.answer}
	d.waits = task.Task{Start: c.Redis.Start, Done: c.Redis.Done(), Work: (&waitWatch{Diag: d}).work}
	d.holds = task.Task{Start: c.Redis.Start, Done: c.Redis.Done(), Work: (&holdWatch{Diag: d}).work}
	return d
}

// Held returns what the client holds: see [Uses].
func (d *Diag) Held() []inspect.Held {
	uses := Uses(d.Source, false)
	held := make([]inspect.Held, len(uses))
	for i, u := range uses {
		held[i] = inspect.Held{
			Name: u.Name, Kind: u.Kind, Owner: u.Owner, Since: u.Since, ValidUntil: u.ValidUntil, Depth: u.Depth, Permits: u.Permits, PartOf: u.PartOf, Site: u.Site,
		}
	}
	return held
}

// share is how many times as long as a look the pause after it is.
const share = 10

// pause returns the pause after what began then: so long at least.
func pause(least time.Duration, began time.Time) time.Duration {
	return max(least, share*time.Since(began))
}
