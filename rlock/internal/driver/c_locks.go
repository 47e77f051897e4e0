package driver

import (
	"strings"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/task"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A client waits before it verifies its tenures again: at first shortly, then for longer, as
// long as there is no rest between. A network that ends connections again and again must not
// add a load of its own.
const firstVerifyPause, lastVerifyPause = time.Second / 16, time.Second

// verifies returns the task that asks Redis at once whether it still shows the tenures
// of the client, when a connection has ended and when the first command over a new one is
// answered: another server may answer now, one that took over from the primary and never had
// the grant, or one that was restarted without its data. Else the next renewal would find it, up
// to a third of the lease later, and until then there might be two holders.
func (c *Client) verifies() *task.Task {
	var paused time.Duration // the last pause
	var done time.Time       // when the work was last done
	return &task.Task{Start: c.Redis.Start, Done: c.Redis.Done(), Work: func() (time.Duration, bool) {
		c.verify()
		rested := time.Since(done) > 2*lastVerifyPause
		done, paused = time.Now(), min(2*paused, lastVerifyPause)
		if rested || paused == 0 {
			paused = firstVerifyPause
		}
		return paused, false
	}}
}

// A Diag hears of what package diag has to look at. Its methods wait for nothing, and may be called with a mutex held.
type Diag interface {
	// WaitBegins notes that a call waits, and HoldBegins that a hold has begun.
	WaitBegins()
	HoldBegins()
}

// Watch sets the Diag, before the client has locks.
func (c *Client) Watch(d Diag) { c.diag = d }

// WaitBegins notes that a call waits, and HoldBegins that a lock is held: see package diag. They may be called with a
// mutex held.
func (c *Client) WaitBegins() { c.diag.WaitBegins() }

func (c *Client) HoldBegins() {
	if c.Config.LongHold > 0 || c.Config.ReleaseDropped {
		c.diag.HoldBegins()
	}
}

// noDiag hears nothing.
type noDiag struct{}

func (noDiag) WaitBegins() {}
func (noDiag) HoldBegins() {}

// hearOfTenures subscribes to the client's own channel, with its first tenure: one that never
// holds a lock needs none. It waits for nothing, and may be called with a mutex held. The
// subscription ends with the hub.
func (c *Client) hearOfTenures() {
	if !c.Config.NoClientChannel {
		c.hearing.Do(func() { c.Hub.ListenPlain(wire.ClientChannel(c.ID.Prefix), c.heard) })
	}
}

// heard deals with a message on the client's own channel. It may be untrue, and so is a reason to ask Redis or to release
// the lock, and no proof of a loss.
func (c *Client) heard(message string) {
	if m, ok := wire.ParseClientMessage(message); ok && !c.Closed.Load() && strings.HasPrefix(m.Owner, c.ID.Prefix) {
		c.toldOfTenure(m)
	}
}
