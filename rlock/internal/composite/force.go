package composite

import (
	"context"
	"slices"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The holders of all parts are read before any part is released. Otherwise a multi-lock could be
// released from its next holder, since a holder that has lost one part releases the others:
//
//	by force          server 1        server 2        B, which waits
//	                  A               A
//	frees part 1      –
//	A learns of the loss, and releases part 2
//	                  B               B               has the lock
//	frees part 2      B               –
//
// A red lock is released by force from the owner that holds it, and not from attempts. An attempt
// that waits may have a part, and looks like a holder there. If the part were freed, the attempt
// would not know for two round trips, and would count it meanwhile:
//
//	by force          server 1     server 2     server 3
//	                  A            A            B, which waits
//	reads: A, A, B
//	frees all parts   B            –            –
//	                                            C
//	                               C
//	B has 1 and, as it believes, 3; C has 2 and 3
//
// An owner holds the lock if enough parts show its number: all parts of one hold do. Owners of two
// processes may have the same number if they are goroutines: then a part of the second owner is
// freed as well.

// readAgain is the pause before the holders are read again: a hand-off inside a process is shown by
// one server after the other.
const readAgain = 10 * time.Millisecond

// allByForce is ByForce of a multi-lock. It releases each part, also a part that is held as a lock
// of its own. Parts whose holders cannot be read stay, and the release returns their errors.
func (l *Lock) allByForce(ctx context.Context) (ForceRelease, error) {
	type shown struct {
		Locker
		release ForceRelease
	}
	var parts []shown
	unread := poll(ctx, l.parts, func(p Locker, ctx context.Context) (shown, error) {
		release, err := p.ByForce(ctx)
		return shown{p, release}, err
	}, func(s shown) bool {
		parts = append(parts, s)
		return false
	})
	return func(ctx context.Context) (freed bool, err error) {
		failed := poll(ctx, parts, func(s shown, ctx context.Context) (bool, error) { return s.release(ctx) }, func(was bool) bool {
			freed = freed || was
			return false
		})
		return freed, l.tooMany(append(unread, failed...))
	}, nil
}

// majorityByForce is ByForce of a red lock. If the parts show several owners, and none of them
// holds the lock, these are attempts: the parts are read up to four times, and then left.
func (l *Lock) majorityByForce(ctx context.Context, parts []Keyed) (ForceRelease, error) {
	for try := 0; ; try++ {
		var shown [][]Holder
		failed := poll(ctx, parts, Keyed.Holders, func(holders []Holder) bool {
			shown = append(shown, holders)
			return false
		})
		if err := l.tooMany(failed); err != nil {
			return nil, err
		}
		if texts, changes := l.holding(shown, len(failed)); len(texts) > 0 || !changes || try == 3 {
			return func(ctx context.Context) (freed bool, err error) {
				if len(texts) == 0 {
					return false, nil
				}
				failed := poll(ctx, parts, func(p Keyed, ctx context.Context) (bool, error) { return p.ForceUnlockOf(ctx, texts) }, func(was bool) bool {
					freed = freed || was
					return false
				})
				return freed, l.tooMany(failed)
			}, nil
		}
		select {
		case <-time.After(readAgain):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// holding returns the texts of the owners that may hold the lock, by what some servers show: the
// owners with enough parts, if parts on the silent servers count for each. It also reports whether
// the servers may be about to show a holder.
func (l *Lock) holding(shown [][]Holder, silent int) (texts []wire.OwnerText, changes bool) {
	byOwner, held := make(map[uint64][]wire.OwnerText), 0
	for _, holders := range shown {
		if len(holders) > 0 {
			held++
		}
		for _, h := range holders {
			byOwner[h.Owner] = append(byOwner[h.Owner], h.Text)
		}
	}
	for _, of := range byOwner {
		if len(of)+silent >= l.need {
			texts = append(texts, of...)
		}
	}
	slices.Sort(texts)
	return texts, held+silent >= l.need
}
