package driver

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Handle is one level of a lock that was taken with a handle.
type Handle interface {
	contract.Part
	// Merge returns a context derived from ctx that also ends when the hold does, just before the
	// hold's own context.
	Merge(ctx context.Context) context.Context
	// FencingToken returns the token of the hold, or 0.
	FencingToken() uint64
	// GuardedWrite executes the source of a script in Redis if the hold has the lock, in one step.
	GuardedWrite(ctx context.Context, source string, keys, args []string) (rueidis.RedisMessage, error)
	// ReleaseWith releases the hold, and executes the source in the same step if the hold has the
	// lock.
	ReleaseWith(ctx context.Context, source string, keys, args []string) (rueidis.RedisMessage, error)
	// Wanted returns a channel that is closed once another owner waits while the hold lasts.
	Wanted() <-chan struct{}
	// Extend moves the end of a hold that ends by itself.
	Extend(ctx context.Context, d time.Duration) error
	// Pass ends the hold, and passes the lock on to the client that presents the returned text.
	Pass(ctx context.Context, within time.Duration) (string, error)
}

// Valid reports whether the lock is held at this moment.
func Valid(h Handle) bool { return !h.ValidUntil().IsZero() }

// A hold is the handle of one level of a lock of one key.
type hold struct {
	contract.HoldContext
	lock  NamedLock
	owner contract.Owner
	life  *contract.Life  // the life of the hold, or of its whole
	whole *contract.Whole // the lock over several that it is a part of; nil for none
	ended func(error)     // called with the reason why the hold has ended without a release, for the whole; may be nil
	by    uint64          // the goroutine that acquired the lock; 0 if it is not known
	token uint64          // the fencing token, set once when the lock was granted; 0 for none

	least     core.Span // the length of the least hold; 0 for none
	stayUntil core.Time // the end of the least hold, set when the lock is granted; 0 for none
	standing  bool      // the hold lasts for long by design, which is not logged

	// The mutex of the lock's shard guards the fields below.

	released bool
	lost     error // the reason why the hold has ended without a release, or nil
}

// newHold returns the handle of a call. Its context is derived from parent.
func (l *NamedLock) newHold(parent context.Context, req *Request) *hold {
	req.Shared = l.Shared
	h := &hold{lock: *l, owner: req.Owner, life: req.Life, whole: req.Whole, ended: req.Lost, by: req.Goroutine(), least: core.Span(req.MinHold), standing: req.Standing}
	life := req.Life
	if req.Whole != nil {
		life = nil // the whole ends it
	}
	if invariants {
		parent = l.driver.witness.watchContext(parent)
	}
	h.Begin(parent, life)
	return h
}

// endIfFailed ends the hold if its call failed with err, and returns err with the name of the lock.
func (h *hold) endIfFailed(err error) error {
	if errors.Is(err, contract.ErrNotAcquired) {
		err = fmt.Errorf("rlock: lock %q: %w", h.lock.Name.Key, err)
	}
	if err != nil {
		h.End(err)
	}
	return err
}

var _ Handle = (*hold)(nil)

// FencingToken implements [Handle], as all exported methods here.
func (h *hold) FencingToken() uint64 { return h.token }

// isPart reports whether the hold is a part of a lock over several, which is reported in place of
// the hold. A nil hold is not a part.
func (h *hold) isPart() bool { return h != nil && h.whole != nil }

// isHeld reports whether the owner holds the lock by the hold, whose level the lock has. A part
// counts only while its whole is held.
func (h *hold) isHeld() bool { return h.whole == nil || h.whole.IsHeld() }

func (h *hold) ValidUntil() (until time.Time) {
	if l, _ := h.enterHold(); l != nil {
		until = h.lock.driver.clock.timeOfSafe(l.ValidUntil(core.OwnerID(h.owner.ID)))
		l.shard.exit(l)
	}
	return until
}

// enterHold enters the lock of the hold. If the hold is over, it returns nil, and holds no mutex.
func (h *hold) enterHold() (*lockState, core.Now) {
	l, now := h.lock.driver.enterIfAny(h.lock.Name, core.OwnerID(h.owner.ID))
	if l == nil {
		return nil, now
	}
	l.Settle(now)
	if h.hasEnded() || !l.hasHandle(h) {
		l.shard.exit(l)
		return nil, now
	}
	return l, now
}

// hasEnded reports whether the hold was released, or its owner was told that it has ended. Package
// core may have ended its level before.
//
// REQUIRES: shard.mu.
func (h *hold) hasEnded() bool { return h.released || h.lost != nil }

// hasHandle reports whether the lock has a level with the handle.
//
// REQUIRES: shard.mu.
func (l *lockState) hasHandle(h *hold) bool {
	levels := l.Levels()
	for i := range levels {
		if levels[i].Handle == any(h) {
			return true
		}
	}
	return false
}

// hasLife reports whether the lock has a level of the hold with that life, or of a part of it.
//
// REQUIRES: shard.mu.
func (l *lockState) hasLife(life *contract.Life, now core.Now) bool {
	l.Settle(now)
	levels := l.Levels()
	for i := range levels {
		if h, ok := levels[i].Handle.(*hold); ok && h.life == life {
			return true
		}
	}
	return false
}

func (h *hold) Err() (cause error) {
	if Valid(h) {
		return nil
	}
	h.lock.driver.shardOf(h.lock.Name).underMutex(func() {
		if !h.released || errors.Is(h.lost, contract.ErrPassed) {
			cause = h.lost
		}
	})
	return cmp.Or(cause, contract.Released(h.lock.Name.Key))
}

// acceptLoss marks a hold that was lost as released, and returns the cause of the loss; nil if it
// was released before. The report of the loss, which ends the context, may be under way.
func (h *hold) acceptLoss() (cause error) {
	h.lock.driver.shardOf(h.lock.Name).underMutex(func() {
		if !h.released {
			h.released, cause = true, h.lost
		}
	})
	h.End(cmp.Or(cause, contract.Released(h.lock.Name.Key)))
	return cause
}

func (h *hold) Release(ctx context.Context) error {
	if Valid(h) {
		h.End(contract.Released(h.lock.Name.Key)) // before another owner can have the lock
	}
	return h.lock.unlockLevel(ctx, h.owner, h)
}

func (h *hold) ReleaseLater() {
	h.End(contract.Released(h.lock.Name.Key)) // before the keeper can release it
	l, now := h.enterHold()
	if l == nil {
		_ = h.acceptLoss()
		return
	}
	was, _, _ := l.Unlock(core.OwnerID(h.owner.ID), modeFor(h.lock.Shared), h, now) // the keeper releases it
	l.shard.counts.CountClosed(was.First)
	h.released = true
	l.shard.exit(l)
}

func (h *hold) SetLease(lease time.Duration) {
	if l, now := h.enterHold(); l != nil {
		l.SetLease(core.OwnerID(h.owner.ID), modeFor(h.lock.Shared), h, core.Span(lease), now)
		l.shard.exit(l)
	}
}

// Wanted implements [Handle].
func (h *hold) Wanted() <-chan struct{} {
	wanted, first := h.AskedWanted()
	if first {
		h.WhenWanted(h.TellWanted)
	}
	return wanted
}

// WhenWanted implements [contract.Part].
func (h *hold) WhenWanted(tell func()) {
	l, now := h.enterHold()
	if l == nil {
		return
	}
	s := l.shard
	if s.wishes == nil {
		s.wishes = make(map[*lockState][]wish)
	}
	if !l.IsCurious() {
		s.wishes[l] = nil // the wishes were made in earlier holds
	}
	s.wishes[l] = append(s.wishes[l], wish{h, tell})
	l.AskOthers(now)
	s.exit(l)
}

// A wish is a hold that has asked to be told when another owner waits.
type wish struct {
	hold *hold
	tell func()
}

// tellWanted tells the holds that have asked, and are not over, that another owner waits. One event
// may say both that a hold is wanted and that a takeover ends it: its level is gone by then.
//
// REQUIRES: shard.mu.
func (l *lockState) tellWanted() {
	for _, w := range l.shard.wishes[l] {
		if !w.hold.hasEnded() {
			w.tell()
		}
	}
	delete(l.shard.wishes, l)
}

// confirmCurious has the other locks with the same key ask for others that wait. These locks are
// permits of other owners. A ticket of the lock l has joined, and Redis does not notify a client of
// its own change.
//
// REQUIRES: shard.mu.
func (l *lockState) confirmCurious(now core.Now) {
	for other := range l.shard.wishes {
		if other != l && other.name.Key == l.name.Key && other.IsCurious() {
			other.Confirm(now)
		}
	}
}

// Extend implements [Handle]. The keeper sends the command, and repeats it until the lease has
// ended.
func (h *hold) Extend(ctx context.Context, d time.Duration) error {
	n, c := h.lock.Name, h.lock.driver
	if err := c.checkShortest(n, d, "a hold goes on"); err != nil {
		return err
	}
	l, now := h.enterHold()
	if l == nil {
		return h.Err()
	}
	result := l.Extend(core.OwnerID(h.owner.ID), modeFor(h.lock.Shared), h, core.Span(d), now)
	l.shard.exit(l)
	switch result {
	case core.NoLevel:
		return h.Err()
	case core.NoEnd:
		return fmt.Errorf("rlock: lock %q: %w: the hold has no end that could be moved: use WithMaxHold or WithLease", n.Key, contract.ErrInvalidLease)
	case core.EndAsked:
		return h.awaitLease(ctx)
	case core.EndMoves:
		return nil
	default:
		panic(result)
	}
}

// awaitLease waits until Redis has confirmed the lease that the levels ask for.
func (h *hold) awaitLease(ctx context.Context) error {
	for {
		l, now := h.enterHold()
		if l == nil {
			return h.Err()
		}
		if l.IsShown(now) {
			l.shard.exit(l)
			return nil
		}
		waits := &l.shard.mirrorWaits
		if *waits == nil {
			*waits = make(map[*lockState]chan struct{})
		}
		landed := (*waits)[l]
		if landed == nil {
			landed = make(chan struct{})
			(*waits)[l] = landed
		}
		l.shard.exit(l)
		select {
		case <-landed:
		case <-h.Context().Done():
			return context.Cause(h.Context())
		case <-ctx.Done():
			return fmt.Errorf("rlock: lock %q: its lease may be extended, or may be yet: %w", h.lock.Name.Key, wire.TimeUp(ctx, nil))
		}
	}
}

// endMirrorWait wakes the calls of awaitLease.
//
// REQUIRES: shard.mu.
func (s *shard) endMirrorWait(l *lockState) {
	if answered := s.mirrorWaits[l]; answered != nil {
		close(answered)
		delete(s.mirrorWaits, l)
	}
}

// GuardedWrite implements [Handle].
func (h *hold) GuardedWrite(ctx context.Context, source string, keys, args []string) (reply rueidis.RedisMessage, err error) {
	c, n := h.lock.driver, h.lock.Name
	if err := c.Redis.CheckKeys(&n.Keys, keys); err != nil {
		return reply, fmt.Errorf("rlock: guarded write of lock %q: %w", n.Key, err)
	}
	if invariants {
		ctx = c.witness.watchContext(ctx)
	}
	for { // again if the hold of a reader has another tenure by now
		over := wire.Over(ctx) // before the mutex is taken: a context is code of the user
		l, now := h.enterHold()
		if l == nil {
			return reply, fmt.Errorf("rlock: guarded write of lock %q: %w: %w", n.Key, contract.ErrFenced, h.Err())
		}
		if over != nil {
			l.shard.exit(l)
			return reply, fmt.Errorf("rlock: guarded write of lock %q: not executed: %w", n.Key, over)
		}
		w := c.newWaiter(&core.Call{Owner: core.OwnerID(h.owner.ID), Mode: modeFor(h.lock.Shared), Handle: h, Until: core.Never})
		w.write = wire.NewWrite(source, keys, args)
		l.BeginWrite(&w.Call)
		l.runCall(ctx, w, nil, now)
		l.shard.exit(l)
		fault, found, cause, err, sent := w.Fault, w.Found, w.Cause, w.err, w.write
		c.recycle(w)
		switch {
		case cause == core.KeyGone:
			return reply, fmt.Errorf("rlock: guarded write of lock %q: %w: %w", n.Key, contract.ErrFenced, h.Err())
		case fault == core.Unknown:
			return reply, fmt.Errorf("rlock: guarded write of lock %q: %w: it may have been executed, or may be as long as Redis has the lock for the hold: %w",
				n.Key, contract.ErrUnconfirmed, wire.ExplainTo(ctx, cmp.Or(err, ctx.Err())))
		case fault == core.NotRun && err == nil: // there was no slot
			return reply, fmt.Errorf("rlock: guarded write of lock %q: %w: %w", n.Key, wire.ErrCrowded, ctx.Err())
		case fault == core.NotRun: // Redis has not executed the command: err is no reply of the script
			return reply, fmt.Errorf("rlock: guarded write of lock %q: not executed: %w", n.Key, wire.Explain(err))
		case fault != core.Answered || found:
			return sent.Reply, n.writeError(err)
		}
	}
}

// writeError returns the error of a guarded write that Redis has answered. If the user lacks a
// right, or the server a command, the error names the lock. Any other error comes from the source,
// and is returned as it is.
func (n *Name) writeError(err error) error {
	if lack := wire.Lack(err); lack != nil {
		return fmt.Errorf("rlock: guarded write of lock %q: %w", n.Key, lack)
	}
	return err
}

// A Pass names a lock that was passed on, for the client that resumes it.
type Pass struct {
	Kind    KindID
	Shared  bool           // the lock is a read lock
	Permits int            // the number of permits of the semaphore
	Token   uint64         // the fencing token of the hold; 0 for none
	Owner   wire.OwnerText // "<uuid>:0", as Redis shows it
	Key     string
}

const (
	passVersion = "rlock1_"
	passFormat  = "%d %t %d %d %s %s"
	// longestPass bounds the text that ParsePass reads. The pass of the longest name is shorter.
	longestPass = 128 << 10
)

// String returns the text of the pass: its version, and its fields with a checksum, in base64 for
// URLs.
func (p Pass) String() string {
	text := fmt.Appendf(nil, passFormat, p.Kind, p.Shared, p.Permits, p.Token, p.Owner, p.Key)
	return passVersion + base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(text, crc32.ChecksumIEEE(text)))
}

// ParsePass parses what String returns.
func ParsePass(text string) (p Pass, err error) {
	rest, ok := strings.CutPrefix(text, passVersion)
	if !ok || len(text) > longestPass {
		return p, fmt.Errorf("rlock: %w: it does not begin with %q", contract.ErrInvalidPass, passVersion)
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	n := len(raw) - 4
	if err != nil || n < 0 || crc32.ChecksumIEEE(raw[:n]) != binary.BigEndian.Uint32(raw[n:]) {
		return p, fmt.Errorf("rlock: %w: it was altered", contract.ErrInvalidPass)
	}
	fields := strings.SplitN(string(raw[:n]), " ", 6)
	if len(fields) < 6 {
		return p, fmt.Errorf("rlock: %w: it has %d fields", contract.ErrInvalidPass, len(fields))
	}
	p.Key = fields[5]
	_, err = fmt.Sscanf(strings.Join(fields[:5], " "), strings.TrimSuffix(passFormat, " %s"), &p.Kind, &p.Shared, &p.Permits, &p.Token, &p.Owner)
	if err != nil || p.Kind >= kindCount || p.Shared && p.Kind != ReadWriteKind || !p.Owner.IsPassed() {
		return p, fmt.Errorf("rlock: %w: it names no lock that was passed on", contract.ErrInvalidPass)
	}
	return p, nil
}

// Pass implements [Handle]. If Redis does not confirm the pass, the lock is released.
func (h *hold) Pass(ctx context.Context, within time.Duration) (string, error) {
	n, c := h.lock.Name, h.lock.driver
	if err := c.checkShortest(n, within, "a lock is passed on"); err != nil {
		return "", err
	}
	l, now := h.enterHold()
	if l == nil {
		return "", h.Err()
	}
	was, t, result := l.Pass(core.OwnerID(h.owner.ID), modeFor(h.lock.Shared), h, core.Span(within), now)
	switch result {
	case core.NotAlone:
		levels := len(l.Levels())
		l.shard.exit(l)
		if levels == 1 {
			return "", fmt.Errorf("rlock: lock %q: %w: the WithMinHold of another reader of this process lasts", n.Key, contract.ErrPass)
		}
		return "", fmt.Errorf("rlock: lock %q: %w: this process holds it %d times", n.Key, contract.ErrPass, levels)
	case core.NothingHeld:
		l.shard.exit(l)
		return "", contract.ErrNotHeld
	case core.HasParted:
	default:
		panic(result)
	}
	h.released, h.lost = true, fmt.Errorf("rlock: lock %q: %w", n.Key, contract.ErrPassed)
	l.shard.counts.CountClosed(was.First)
	pass := Pass{Kind: n.KindID, Shared: h.lock.Shared, Permits: n.Permits, Token: h.token, Owner: c.textOf(t.ID, 0, t.More()), Key: n.Key}
	err := l.sendRelease(t, h, nil, h.owner, now)
	if c.Observer.On() {
		e := c.closedLevel(n, &was, now, err)
		e.Passed = err == nil
		c.Observer.TellReleased(ctx, e, contract.LostKeyGone)
	}
	if err != nil {
		return "", fmt.Errorf("rlock: lock %q: it was not passed on, and is given up: %w", n.Key, err)
	}
	return pass.String(), nil
}

// Resume takes the lock that was passed on, with a handle whose context is derived from parent.
func (l *NamedLock) Resume(ctx, parent context.Context, req Request, pass *Pass) (Handle, error) {
	h := l.newHold(parent, &req)
	if err := l.driver.resumePassed(ctx, l.Name, &req, h, pass); err != nil {
		h.End(err)
		return nil, err
	}
	return h, nil
}

func (c *Client) resumePassed(ctx context.Context, n *Name, req *Request, h *hold, pass *Pass) error {
	if invariants {
		ctx = c.witness.watchContext(ctx)
	}
	if err := c.checkRequest(ctx, n, req); err != nil {
		return c.tellNotAcquired(ctx, n, req, err, 0, false)
	}
	site := c.Site()
	l, now := c.enter(n, core.OwnerID(req.Owner.ID))
	if err := l.checkOwner(req, now); err != nil {
		return l.giveUp(ctx, req, err)
	}
	var first core.Call
	req.fill(&first, h, site, now)
	first.Named, first.Inherits = c.Redis.IDOf(pass.Owner), pass.Token
	_, first.More = pass.Owner.CutMore()
	w := c.newWaiter(&first)
	w.req, w.hold, w.site, w.passed = *req, h, site, pass.Owner
	l.BeginResume(&w.Call, now)
	return l.runAndExit(ctx, w, now)
}
