package group

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/losses"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// A Home is a client, as far as locks over several need one: that of a lock is the client of its first part. It
// remembers the holds that were taken without a handle, and starts the background work.
type Home struct {
	Config

	mu       sync.Mutex // protects following
	taken    map[losses.Key][]*Hold
	observed map[losses.Key][]*Hold // that the Observer is told of, as they were asked for

	releases atomic.Int64 // goroutines that release a part
	healer   *healer
}

// A Config is what a Home is made of. All fields but Observer and AcquireAll are set.
type Config struct {
	ID    string        // of the client
	Where func() string // the addresses of its servers, for errors and for an order

	Observer *terms.Observer // nil for none
	// Later reports an event without a caller to a hook of the Observer.
	Later    func(ctx context.Context, hook terms.Hook, e terms.Event)
	Logger   *slog.Logger
	LongWait time.Duration      // when a wait is logged; 0: never
	Site     func() *terms.Site // of the call, nil if sites are not recorded
	// Trouble logs that all attempts at a lock have failed since then, if that is long ago.
	Trouble func(lock string, since time.Time, err error)
	// Start calls work in a goroutine that the client's Close waits for, and reports whether it did.
	Start func(work func()) bool
	// Done is closed when that is over.
	Done <-chan struct{}
	// Server returns what the process of the server is known by, "" if that is not known now. It does not wait for
	// longer than for an answer.
	Server func() (string, error)
	// Longest is the longest lease that any client is to have on this server.
	Longest time.Duration
	// CheckLease refuses a lease that is too short to keep.
	CheckLease func(lock string, lease time.Duration) error

	// AcquireAll acquires locks of one key of this client in their order, in one attempt each, up to the first that is not
	// free, and takes one round trip. It returns the parts before that, and its error. nil: they are acquired one by one.
	AcquireAll func(ctx context.Context, o terms.Owner, locks []Locker, options []Options) ([]terms.Part, error)

	// Losses record by owner the lost levels that are not unlocked yet. A lock is known by a text that is the same for
	// the same parts.
	Losses *losses.Losses
	// NotHeld returns the error of an owner that has nothing to unlock.
	NotHeld func(name string, o terms.Owner) error
}

// NewHome returns the home of a client.
func NewHome(c Config) *Home {
	h := &Home{Config: c, taken: make(map[losses.Key][]*Hold)}
	h.healer = newHealer(h)
	return h
}

// push remembers a hold that was taken without a handle.
func (h *Home) push(k losses.Key, hold *Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.taken[k] = append(h.taken[k], hold)
}

// remove takes the hold away, or the innermost for nil, and returns it; nil if it is not there.
func (h *Home) remove(k losses.Key, hold *Hold) *Hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	holds := h.taken[k]
	i := len(holds) - 1
	if hold != nil {
		i = slices.Index(holds, hold)
	}
	if i < 0 {
		return nil
	}
	hold = holds[i]
	if h.taken[k] = slices.Delete(holds, i, i+1); len(holds) == 1 {
		delete(h.taken, k)
	}
	return hold
}
