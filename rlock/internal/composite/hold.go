package composite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Hold is one level of a multi or red lock: a level of each of its parts, in the name of one
// owner. No goroutine runs while it has all parts.
type Hold struct {
	contract.HoldContext
	of      *Lock
	owner   contract.Owner
	options Options        // the options of the call
	whole   contract.Whole // the hold as its parts know it
	quit    func()         // ends the waits for parts that are being acquired

	// The Home's mutex guards these fields, which are for the Observer.

	way     contract.Way // the way in which the hold was acquired
	pending []func()     // the reports of inner levels that were lost while this one seemed lost: see tellLost
	told    bool         // the Observer was told that the hold was acquired
	early   func()       // the report of a loss before the Observer was told of the acquire, or nil

	mu    sync.Mutex    // guards the fields below
	lease time.Duration // the lease; 0 if the watchdog renews the parts
	until time.Time     // the end of the lease; zero if the watchdog renews the parts
	since time.Time     // the time at which the first parts were added; zero before
	parts []*member
	tells func()   // called when another owner waits for a part; nil while the hold does not ask
	over  bool     // the hold is released or lost, so that no part may be added
	lost  error    // the cause of the loss, until a release returns it
	lacks []Locker // the parts that the hold of a red lock acquires again: see heal.go
}

var _ contract.Part = (*Hold)(nil)

// A member is a part of a hold.
type member struct {
	lock Locker
	part contract.Part
	lost error // the cause of the part's loss, or nil; Hold.mu guards it
}

// take acquires a part, with the lease, the wait and the Quit of the options. It does not add the
// part to the hold.
func (h *Hold) take(ctx context.Context, lock Locker, options Options) (*member, error) {
	m, options := h.newMember(lock, options)
	part, err := lock.Acquire(ctx, h.owner, options)
	if err != nil {
		return nil, err
	}
	m.part = part
	return m, nil
}

// takeTogether acquires parts of one client up to the first that is not free, and returns the error
// of that part.
func (h *Hold) takeTogether(ctx context.Context, home *Home, locks []Locker, lease time.Duration) (taken []*member, err error) {
	members, options := make([]*member, len(locks)), make([]Options, len(locks))
	for i, lock := range locks {
		members[i], options[i] = h.newMember(lock, Options{Lease: lease})
	}
	parts, err := home.AcquireAll(ctx, h.owner, locks, options)
	for i, part := range parts {
		members[i].part = part
	}
	return members[:len(parts)], err
}

// newMember returns the member for a part, and the options with which the part is acquired.
func (h *Hold) newMember(lock Locker, options Options) (*member, Options) {
	m := &member{lock: lock}
	options.Caller, options.Whole, options.Life, options.Note = h.options.Caller, &h.whole, h.options.Life, h.options.Note
	options.Lost = func(cause error) { h.lose(m, cause) }
	return m, options
}

// add adds parts to the hold, which begins when the first parts are added. If the hold is over it
// reports false, and the caller releases the parts.
func (h *Hold) add(parts ...*member) bool {
	h.mu.Lock()
	if h.over {
		h.mu.Unlock()
		return false
	}
	if h.since.IsZero() {
		h.since = time.Now()
		h.beginLease(h.lease)
		h.whole.SetHeld(true)
	}
	h.parts = append(h.parts, parts...)
	lease, tells := h.lease, h.tells
	var gone []*member // parts that ended before they were added
	for _, m := range parts {
		if m.lost != nil {
			gone = append(gone, m)
		}
	}
	h.mu.Unlock()
	for _, m := range parts {
		if lease != h.options.Lease { // the lease was changed meanwhile
			m.part.SetLease(lease)
		}
	}
	if tells != nil {
		whenWanted(parts, tells)
	}
	for _, m := range gone {
		h.lose(m, m.lost)
	}
	return true
}

// Wanted returns a channel that is closed once another owner waits for one of the parts.
func (h *Hold) Wanted() <-chan struct{} {
	wanted, first := h.AskedWanted()
	if first {
		h.WhenWanted(h.TellWanted)
	}
	return wanted
}

// WhenWanted has each part call tell when another owner waits for it, also parts that are added
// later.
func (h *Hold) WhenWanted(tell func()) {
	h.mu.Lock()
	h.tells = tell
	h.mu.Unlock()
	whenWanted(h.copyParts(), tell)
}

func whenWanted(parts []*member, tell func()) {
	for _, m := range parts {
		m.part.WhenWanted(tell)
	}
}

// lose notes that a part was lost, and ends the hold if too few are left. It does not wait.
func (h *Hold) lose(m *member, why error) {
	h.mu.Lock()
	m.lost = why
	i := slices.Index(h.parts, m)
	if h.over || i < 0 {
		h.mu.Unlock()
		return
	}
	h.parts = slices.Delete(h.parts, i, i+1)
	l, o := h.of, h.owner
	if len(h.parts) >= l.need {
		h.mu.Unlock()
		h.lackParts(m.lock)
		return
	}
	cause := fmt.Errorf("rlock: lock %q of %s: %d of %d parts are left, and it takes %d: %w",
		l.name, o.Title(), len(h.parts), len(l.parts), l.need, why)
	until := h.until
	if !until.IsZero() && errors.Is(why, contract.ErrLeaseEnded) {
		until = time.Now()
	}
	if h.options.Whole == nil && !o.OfHandle() { // else a whole or a handle remembers the loss
		l.home.Losses.Add(l.key(o), contract.LostLevel{Until: until}, cause)
	}
	left, since := h.markOver(cause), h.since
	h.mu.Unlock()

	l.home.remove(l.key(o), h) // Losses has the level now
	h.End(cause)
	if h.options.Lost != nil {
		h.options.Lost(cause)
	}
	h.tellLost(since, why, cause)
	h.quit()
	releaseLater(left)
}

// outlived returns an error if the caller is a guest of a hold that is over. For a part the whole
// checks it.
func (h *Hold) outlived() error {
	if in := h.options.Within; in == nil || !in.IsOver() {
		return nil
	}
	return &contract.Outlived{Lock: h.of.name, Began: time.Now()}
}

// markOver marks the hold as over, and returns its parts.
//
// REQUIRES: Hold.mu.
func (h *Hold) markOver(cause error) []*member {
	parts := h.parts
	h.parts, h.over, h.lost = nil, true, cause
	h.dropLacks()
	h.whole.SetHeld(false)
	return parts
}

// Err implements [contract.Part], as do all exported methods of a Hold.
func (h *Hold) Err() error {
	if h.isValid() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.over: // the leases have ended by the clock, and the parts have not noticed yet
		return fmt.Errorf("rlock: lock %q of %s: %w: too few parts of it are valid", h.of.name, h.owner.Title(), contract.ErrLost)
	case h.lost != nil:
		return h.lost
	}
	return contract.Released(h.of.name)
}

func (h *Hold) isValid() bool { return !h.ValidUntil().IsZero() }

// ValidUntil returns the time at which too few parts are valid unless a renewal is confirmed
// before; the zero time if the hold is over.
func (h *Hold) ValidUntil() time.Time {
	parts := h.copyParts()
	until := make([]time.Time, 0, len(parts))
	for _, m := range parts {
		if t := m.part.ValidUntil(); !t.IsZero() {
			until = append(until, t)
		}
	}
	return best(until, h.of.need, time.Time.Compare)
}

// copyParts returns a copy of the parts, which may be lost meanwhile.
func (h *Hold) copyParts() []*member {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.parts)
}

// best returns the largest value that at least many of the values reach; the zero value if there
// are fewer than many values.
func best[T any](values []T, many int, compare func(a, b T) int) (t T) {
	if len(values) < many {
		return t
	}
	slices.SortFunc(values, func(a, b T) int { return compare(b, a) })
	return values[many-1]
}

// beginLease sets the lease, which begins now, or has the watchdog renew the parts if the lease is
// 0.
//
// REQUIRES: Hold.mu.
func (h *Hold) beginLease(lease time.Duration) {
	h.lease, h.until = lease, time.Time{}
	if lease > 0 {
		h.until = time.Now().Add(lease)
	}
}

func (h *Hold) SetLease(lease time.Duration) {
	h.mu.Lock()
	h.beginLease(lease)
	h.mu.Unlock()
	setLease(h.copyParts(), lease)
}

func setLease(parts []*member, lease time.Duration) {
	for _, m := range parts {
		m.part.SetLease(lease)
	}
}

// FencingToken returns 0: the parts have tokens of their own.
func (h *Hold) FencingToken() uint64 { return 0 }

// GuardedWrite returns an error: a step in one server cannot check parts that may be on several.
func (h *Hold) GuardedWrite(context.Context, string, []string, []string) (m rueidis.RedisMessage, err error) {
	return m, fmt.Errorf("rlock: lock %q: %w: a lock over several has no guarded writes, since no single step sees all parts: write with the hold of one of them", h.of.name, errors.ErrUnsupported)
}

// ReleaseWith returns an error, as GuardedWrite does.
func (h *Hold) ReleaseWith(ctx context.Context, source string, keys, args []string) (rueidis.RedisMessage, error) {
	return h.GuardedWrite(ctx, source, keys, args)
}

// Pass returns an error.
func (h *Hold) Pass(context.Context, time.Duration) (string, error) {
	return "", fmt.Errorf("rlock: lock %q: %w: it is made of several locks", h.of.name, contract.ErrPass)
}

// Extend returns an error.
func (h *Hold) Extend(context.Context, time.Duration) error {
	return fmt.Errorf("rlock: lock %q: extend: %w: it is made of several locks", h.of.name, errors.ErrUnsupported)
}

// Parts are released all at once, each in a goroutine that the Close of its client waits for.
// ReleaseLater leaves its releases to the clients of the parts. Of a red lock, the releases in
// flight when a majority is confirmed go on in their goroutines.

// maxReleases is the largest number of goroutines of a client that release parts. Above it a call
// waits for all of its releases.
const maxReleases = 1024

// Release releases the parts, and returns when enough releases are confirmed.
func (h *Hold) Release(ctx context.Context) error {
	released := contract.Released(h.of.name)
	if h.isValid() {
		h.End(released) // before another owner can have the lock
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
			return fmt.Errorf("rlock: unlock %q: %s: %w", l.name, o.Title(), contract.ErrNotHeld)
		}
		if h.options.Whole == nil {
			_ = l.home.Losses.Unlock(l.key(o), false)
		}
		return cause
	}
	parts, held := h.markOver(nil), time.Since(h.since)
	h.mu.Unlock()
	h.quit()
	err := l.home.release(o, parts, l.need, nil)
	h.tellReleased(ctx, held, err)
	return err
}

// undo releases the parts of a call that fails.
func (h *Hold) undo(ctx context.Context) {
	h.mu.Lock()
	if h.over { // the hold was lost meanwhile
		h.mu.Unlock()
		_ = h.unlock(ctx)
		return
	}
	parts := h.markOver(nil)
	h.mu.Unlock()
	h.quit()
	h.of.giveBack(ctx, h.owner, parts)
}

// ReleaseLater releases the parts, and does not wait.
func (h *Hold) ReleaseLater() {
	h.End(contract.Released(h.of.name))
	h.mu.Lock()
	parts := h.markOver(nil)
	h.mu.Unlock()
	h.quit()
	releaseLater(parts)
}

func releaseLater(parts []*member) {
	for _, m := range parts {
		m.part.ReleaseLater()
	}
}

// giveBack releases the parts of a call that failed, and waits for the releases until ctx ends.
func (l *Lock) giveBack(ctx context.Context, o contract.Owner, parts []*member) {
	if ctx.Err() != nil || l.home.isCrowded() {
		releaseLater(parts)
		return
	}
	_ = l.home.release(o, parts, len(parts), ctx.Done())
}

// release releases the parts. It returns nil as soon as enough releases are confirmed, or quit is
// closed, and otherwise the errors of all. If the other servers are enough, it does not wait for
// silent ones. Releases for which it does not wait go on in the background, unless there are too
// many of them: then it waits for all. When release returns, the owner has no part any more; else
// it could nest in a part that guests of the released hold still have.
func (h *Home) release(o contract.Owner, parts []*member, enough int, quit <-chan struct{}) error {
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
		if pending > 0 { // the goroutines may not have begun
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

// isCrowded reports whether so many releases go on that none may be left behind.
func (h *Home) isCrowded() bool { return h.releases.Load() > maxReleases }

// bySilence separates the parts whose servers answer from the others.
func bySilence(o contract.Owner, parts []*member) (live, silent []*member) {
	for _, m := range parts {
		if m.lock.State(o).IsSilent() {
			silent = append(silent, m)
		} else {
			live = append(live, m)
		}
	}
	return live, silent
}

// homeOf returns the home of the lock, or of its first part.
func homeOf(l Locker) *Home { return l.Leaves()[0].Home }

// do calls work in a goroutine that the client's Close waits for. After Close it calls work itself,
// which does not take long then.
func (h *Home) do(work func()) {
	if !h.Start(work) {
		work()
	}
}

// A lock over several is reported to the Observer as one lock. A hold that is itself a part is
// reported with its whole.

// observes reports whether the hold is reported to the Observer.
func (h *Hold) observes() bool { return h.of.home.Observer != nil && h.options.Whole == nil }

// event returns an event about the hold.
func (h *Hold) event() contract.Event {
	return contract.Event{Name: h.of.name, Kind: h.of.kind, Owner: h.owner}
}

// observeCall calls obtain, and reports the call to the Observer. The way is known before: the
// owner nests or not, while its parts may be acquired in many ways. A call that may have to wait
// for a part counts as a call that waits. If a call is repeated as another owner, only the first
// Waiting and the last result are reported.
func (h *Hold) observeCall(ctx context.Context, obtain func() error) error {
	if !h.observes() {
		return obtain()
	}
	began, home, e := time.Now(), h.of.home, h.event()
	o := home.Observer
	e.Way = contract.ByParts
	if h.of.Depth(h.owner) > 0 {
		e.Way = contract.ByNesting
	}
	if again := h.options.Again; again != nil {
		began, e.Contended = again.Began, again.Contended
	}
	if !e.Contended && h.options.Wait > 0 && e.Way != contract.ByNesting {
		e.Contended = true
		o.Waiting.Tell(ctx, e)
	}
	home.observe(h, e.Way)
	err := obtain()
	e.Err, e.Waited = err, time.Since(began)
	if err != nil {
		home.unobserve(h, false)
		if outlived, is := errors.AsType[*contract.Outlived](err); is {
			outlived.Began, outlived.Contended = began, e.Contended
			return err
		}
		o.GaveUp.Tell(ctx, e)
		return err
	}
	if e.Way == contract.ByNesting {
		e.Waited = 0
	}
	o.Acquired.Tell(ctx, e)
	home.reportEarly(h)
	return nil
}

// reportEarly notes that the Observer was told that the hold was acquired, and reports a loss that
// came before.
func (h *Home) reportEarly(hold *Hold) {
	h.mu.Lock()
	hold.told = true
	report := hold.early
	h.mu.Unlock()
	if report != nil {
		report()
	}
}

// afterAcquired calls the report of a loss, or leaves it to reportEarly: a call that is not
// reported yet may still fail, and then the Observer is told only that it gave up.
func (h *Home) afterAcquired(hold *Hold, report func()) {
	h.mu.Lock()
	told := hold.told
	if !told {
		hold.early = report
	}
	h.mu.Unlock()
	if told {
		report()
	}
}

// observe notes a hold that is reported to the Observer, and how it is acquired.
func (h *Home) observe(hold *Hold, way contract.Way) {
	h.mu.Lock()
	defer h.mu.Unlock()
	hold.way = way
	if h.observed == nil {
		h.observed = make(map[contract.LossKey][]*Hold)
	}
	k := hold.observedKey()
	h.observed[k] = append(h.observed[k], hold)
}

// observedKey returns the key of the hold in Home.observed. Guests of an owner take levels of the
// owner's holds, so they have the key of the owner.
func (h *Hold) observedKey() contract.LossKey { return h.of.key(contract.Owner{ID: h.owner.ID}) }

// unobserve forgets the hold, and returns the first of the owner's other holds, or nil. If goesOn
// and the hold was the first, the next hold takes its place, so that each Acquired event of an
// owner gets its Released or Lost.
func (h *Home) unobserve(hold *Hold, goesOn bool) (first *Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := hold.observedKey()
	left := slices.DeleteFunc(h.observed[k], func(o *Hold) bool { return o == hold })
	h.observed[k] = left
	if len(left) == 0 {
		delete(h.observed, k)
		return nil
	}
	if next := left[0]; goesOn && next.way == contract.ByNesting {
		next.way, hold.way = hold.way, next.way
		hold.mu.Lock()
		since := hold.since
		hold.mu.Unlock()
		next.mu.Lock()
		if !next.since.IsZero() { // next has parts; a hold that is still being acquired has none
			next.since = since
		}
		next.mu.Unlock()
	}
	return left[0]
}

// deferReport leaves the report of a loss to the end of the outer hold: see tellLost. It reports
// false if the outer hold has ended.
func (h *Home) deferReport(report func(), outer *Hold) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.observed[outer.observedKey()], outer) {
		return false
	}
	outer.pending = append(outer.pending, report)
	return true
}

// tellReleased reports the end of the hold by Release. It is called without a mutex.
func (h *Hold) tellReleased(ctx context.Context, held time.Duration, err error) {
	if !h.observes() {
		return
	}
	lost := errors.Is(err, contract.ErrLost)
	h.of.home.unobserve(h, !lost)
	h.of.home.Observer.TellReleased(ctx, h.endEvent(held, err), contract.LostParts)
	for _, report := range h.pending {
		if !lost {
			report()
		}
	}
}

// endEvent returns the event of the end of the hold.
func (h *Hold) endEvent(held time.Duration, err error) contract.Event {
	e := h.event()
	e.Way, e.Held, e.Err = h.way, held, err
	return e
}

// tellLost reports that the hold has too few parts left; why is the cause of the last loss. If
// several levels of an owner are lost together, the first is reported. If the first seems lost, but
// its owner releases it before the loss is certain, the inner levels are reported then.
func (h *Hold) tellLost(since time.Time, why, cause error) {
	if !h.observes() {
		return
	}
	home, ctx := h.of.home, context.WithoutCancel(h.Context())
	first := home.unobserve(h, false)
	e, hook := h.endEvent(time.Since(since), cause), home.Observer.Lost
	switch {
	case errors.Is(why, wire.ErrClosed):
		hook = home.Observer.Released
	case errors.Is(why, contract.ErrLeaseEnded):
		e.Reason = contract.LostLeaseEnded
	default:
		e.Reason = contract.LostParts
	}
	report := func() { home.afterAcquired(h, func() { home.Later(ctx, hook, e) }) }
	if h.way == contract.ByNesting {
		if first == nil || errors.Is(first.Err(), contract.ErrLost) && home.deferReport(report, first) {
			return
		}
	}
	report()
}

// watchWait logs the call as a long wait, unless end is called in time.
func (h *Hold) watchWait() (end func()) {
	home := h.of.home
	limit := home.LongWait
	if limit <= 0 || h.options.Wait <= limit || h.options.Whole != nil {
		return func() {}
	}
	timer := time.AfterFunc(limit, func() {
		home.Logger.Warn("rlock: a call waits for a lock for a long time", "lock", h.of.name, "kind", h.of.kind,
			"owner", h.owner, "waited", limit, "site", contract.Known(h.whole.Site).String())
	})
	return func() { timer.Stop() }
}
