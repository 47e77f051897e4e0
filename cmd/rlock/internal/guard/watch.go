package guard

import (
	"context"
	"os"
	"time"

	"github.com/go-rlock/rlock/cmd/rlock/internal/child"
	"github.com/go-rlock/rlock/rlock"
)

const (
	// lastMoment is the longest grace of a command while another client may have the lock already.
	lastMoment = time.Second
	// stubborn is the longest wait for killed processes, which may be zombies that are never
	// collected; and for the log of a loss, which may block.
	stubborn = 2 * time.Second
)

// A process is a [child.Process].
type process interface {
	Exited() <-chan child.Status
	Gone() <-chan struct{}
	Forward(os.Signal)
	Terminate()
	Kill()
}

// watch waits until the command and all its descendants have ended, and ends them if the lock is
// lost.
func (r *run) watch(hold *rlock.Hold, p process) (status child.Status) {
	exited, lost := p.Exited(), hold.Context().Done()
	fuse := newFuse(hold, r.lease, r.Grace)
	left, _ := fuse.left()
	check := time.NewTimer(left)
	defer check.Stop()
	var killAt time.Time // the time at which the command is killed; zero for never
	kill := time.NewTimer(0)
	kill.Stop()
	end := func(grace time.Duration) {
		p.Terminate()
		if at := time.Now().Add(grace); killAt.IsZero() || at.Before(killAt) {
			killAt = at
			kill.Reset(grace)
		}
	}
	var abandoned <-chan time.Time // has a value when the wait for killed processes ends
	for {
		select {
		case s := <-r.signals:
			p.Forward(s)
		case status = <-exited:
			exited = nil
			end(r.Grace) // the rest of its group
		case <-p.Gone():
			if exited != nil {
				status = <-exited // sent before Gone was closed
			}
			return status
		case <-lost:
			lost = nil
			r.lose(context.Cause(hold.Context()))
			end(min(r.Grace, lastMoment))
		case <-check.C:
			if left, grace := fuse.left(); left > 0 {
				check.Reset(left) // the lease was renewed meanwhile
			} else if lost != nil {
				r.lose(errSilent)
				end(grace)
			}
		case <-kill.C:
			p.Kill()
			abandoned = time.After(stubborn)
		case <-abandoned:
			if exited == nil {
				return status
			}
		}
	}
}

// A fuse knows when the command must be asked to end, unless Redis confirms the lease before.
//
// A lock that was granted by the release of another client has a claim of two seconds at first, and
// the lease once it is renewed. A claim has a margin and a grace of its own, shorter in proportion.
type fuse struct {
	hold   *rlock.Hold
	lease  time.Duration
	grace  time.Duration
	claim  time.Duration // the initial validity of a lock that was granted for a claim; else 0
	endsAt time.Time     // the end of the claim
}

func newFuse(hold *rlock.Hold, lease, grace time.Duration) *fuse {
	f := &fuse{hold: hold, lease: lease, grace: grace}
	if until := hold.ValidUntil(); time.Until(until) < lease/2 {
		f.claim, f.endsAt = time.Until(until), until
	}
	return f
}

// left returns the time for which the command may run without a renewal, and its grace after that.
func (f *fuse) left() (left, grace time.Duration) {
	until := f.hold.ValidUntil()
	lease, grace := f.lease, f.grace
	if f.claim > 0 && !until.After(f.endsAt) {
		lease, grace = f.claim, min(grace, f.claim/6)
	}
	return time.Until(until) - Margin(lease) - grace, grace
}
