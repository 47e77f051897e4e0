package group

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// How parts are given back: all at once, each in a goroutine that the Close of its client waits for. A release that a
// caller does not wait for is the client's own affair (ReleaseLater), but for those of a red lock that were sent when
// the majority was confirmed.

// maxReleases is how many goroutines of a client may release parts when a call leaves some behind.
const maxReleases = 1024

// Release gives the parts back, and returns when enough of them are confirmed.
func (h *Hold) Release(ctx context.Context) error {
	released := terms.Released(h.of.name)
	if h.isValid() {
		h.End(released) // before another can have it
	}
	err := h.unlock(ctx)
	h.End(released)
	return err
}

func (h *Hold) unlock(ctx context.Context) error {
	l, o := h.of, h.owner
	h.mu.Lock()
	if h.over {
		cause := h.lost
		h.lost = nil
		h.mu.Unlock()
		if cause == nil {
			return fmt.Errorf("rlock: unlock %q: %s: %w", l.name, o.Title(), terms.ErrNotHeld)
		}
		if h.options.Whole == nil {
			_ = l.home.Losses.Unlock(l.key(o), false)
		}
		return cause
	}
	parts, held := h.end(nil), time.Since(h.since)
	h.mu.Unlock()
	h.quit()
	err := l.home.release(o, parts, l.need, nil)
	h.tellReleased(ctx, held, err)
	return err
}

// undo gives back what a call has acquired that does not return the hold.
func (h *Hold) undo(ctx context.Context) {
	h.mu.Lock()
	if h.over { // lost meanwhile
		h.mu.Unlock()
		_ = h.unlock(ctx)
		return
	}
	parts := h.end(nil)
	h.mu.Unlock()
	h.quit()
	h.of.giveBack(ctx, h.owner, parts)
}

// ReleaseLater waits for nothing.
func (h *Hold) ReleaseLater() {
	h.End(terms.Released(h.of.name))
	h.mu.Lock()
	parts := h.end(nil)
	h.mu.Unlock()
	h.quit()
	releaseLater(parts)
}

func releaseLater(parts []*member) {
	for _, m := range parts {
		m.part.ReleaseLater()
	}
}

// giveBack releases the parts of a failed call. It does not wait for that longer than the caller
// does.
func (l *Lock) giveBack(ctx context.Context, o terms.Owner, parts []*member) {
	if ctx.Err() != nil || l.home.isCrowded() {
		releaseLater(parts)
		return
	}
	_ = l.home.release(o, parts, len(parts), ctx.Done())
}

// release releases the parts. It returns nil as soon as so many are confirmed, and else the errors
// of all. If those of servers that answer are enough, it does not wait for the others. It leaves
// the rest to the background, also if quit is closed; but if there is much work there already it
// waits, so that the work stays bounded. No part is the owner's any more when it returns: the
// owner would nest in one that guests of the released hold still have.
func (h *Home) release(o terms.Owner, parts []*member, enough int, quit <-chan struct{}) error {
	if live, silent := bySilence(o, parts); len(live) >= enough {
		releaseLater(silent)
		parts = live
	}
	results := make(chan error, len(parts))
	for _, m := range parts {
		h.releases.Add(1)
		homeOf(m.lock).do(func() {
			err := m.part.Release(context.Background())
			h.releases.Add(-1)
			results <- err
		})
	}
	pending := len(parts)
	defer func() {
		if pending > 0 { // their goroutines may not have begun
			releaseLater(parts)
		}
	}()
	var failed []error
	for pending > 0 {
		select {
		case err := <-results:
			pending--
			if err != nil {
				failed = append(failed, err)
			} else if enough--; enough <= 0 && !h.isCrowded() {
				return nil
			}
		case <-quit:
			return nil
		}
	}
	if enough <= 0 {
		return nil
	}
	return errors.Join(failed...)
}

// isCrowded reports whether no release may be left behind.
func (h *Home) isCrowded() bool { return h.releases.Load() > maxReleases }

// bySilence separates the parts whose servers answer from the others.
func bySilence(o terms.Owner, parts []*member) (live, silent []*member) {
	for _, m := range parts {
		if m.lock.State(o).IsSilent() {
			silent = append(silent, m)
		} else {
			live = append(live, m)
		}
	}
	return live, silent
}

// homeOf returns the client that has the lock, or its first part.
func homeOf(l Locker) *Home { return l.Leaves()[0].Home }

// do calls work in a goroutine that the client's Close waits for. Once that is over work does not last, and is called
// at once.
func (h *Home) do(work func()) {
	if !h.Start(work) {
		work()
	}
}
