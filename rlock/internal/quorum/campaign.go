package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/engine"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

const (
	// lookAround is how long a campaign waits at one server, at most and with jitter,
	// before it asks all servers again: the server, or the holder of the lock there, may
	// be dead.
	lookAround = 2 * time.Second
	// grace is how long a campaign that was just granted the part it waited for waits for
	// the others: the former holder releases them at the same time.
	grace = 50 * time.Millisecond
)

// A campaign is one call's way to a majority.
//
// All parts are asked at once. If so many deny that there can be no majority, it lets
// go of all that is behind the first part that denies, and waits there. When it is
// granted that part, it asks the others again. So it never waits for a part with one in
// hand that is further back, except for the time of grace: campaigns cannot wait in a
// circle, and at each step one of them goes on. Usually there is one step: all wait at the
// first server, and the campaign that gets it gets the others. Where processes have the
// servers in different orders there may be a circle, and so a campaign that has waited in
// vain waits the next time with nothing in hand.
type campaign struct {
	lock  *compound
	whole *hold // that the parts are taken for
	req   engine.Request
	began time.Time

	ctx context.Context // of what is asked: without the caller's end
	// quit, once closed, ends the waits at the parts. An answer that is on its way is
	// awaited: to give it up costs a release, which may find nothing.
	quit  chan struct{}
	leave func() // closes quit

	seats []*seat // by part
	asked int     // how many are being asked
	at    *seat   // the part that is waited at, nil for none
	// patience is how long the parts that are asked next may wait.
	patience time.Duration
	stuck    bool      // it has waited in vain, with others in hand
	fails    int       // in a row, with nowhere to wait
	since    time.Time // when the first of them was
	rounds   int       // how often all were asked
	votes    chan vote
}

// A vote is the answer of a part.
type vote struct {
	seat *seat
	hold engine.Handle
	err  error
}

func newCampaign(ctx context.Context, whole *hold) *campaign {
	c := &campaign{
		lock: whole.of, whole: whole, req: whole.req, began: time.Now(),
		votes: make(chan vote, len(whole.of.locks)), // a part is asked once at a time
		ctx:   context.WithoutCancel(ctx),
		quit:  make(chan struct{}),
	}
	for i, l := range whole.of.locks {
		c.seats = append(c.seats, &seat{lock: l, part: i})
	}
	c.leave = sync.OnceFunc(func() { close(c.quit) })
	return c
}

// run returns nil once it holds a majority.
func (c *campaign) run(ctx context.Context) error {
	if c.nest() {
		return nil
	}
	if c.req.Wait > 0 {
		c.at = c.behind()
	}
	for {
		if c.at == nil && ctx.Err() == nil && c.askAround(ctx) {
			return nil
		}
		if err := c.over(ctx); err != nil {
			return err
		}
		if c.at == nil && !c.hopeless() && !c.isolated() {
			continue // the others are slow
		}
		if c.wait(ctx) {
			return nil
		}
	}
}

// askAround asks all parts, and reports whether it has a majority. If it is denied one, it
// finds the part to wait at.
func (c *campaign) askAround(ctx context.Context) (won bool) {
	c.askAll()
	won = c.hear(ctx)
	if !won && !c.isolated() {
		c.at = c.firstDenial()
	}
	return won
}

// hear counts until there is a majority (true) or there will be none. A campaign that may
// wait does not keep parts that others need while it waits for silent servers; but it
// waits longer each time, since they may be far away.
func (c *campaign) hear(ctx context.Context) (won bool) {
	var tired <-chan time.Time
	if c.req.Wait > 0 {
		timer := time.NewTimer(engine.Silence << min(c.rounds, 5))
		defer timer.Stop()
		tired = timer.C
		c.rounds++
	}
	return c.count(ctx, tired, c.hopeless)
}

// hopeless reports whether the answers to come cannot make a majority.
func (c *campaign) hopeless() bool { return len(c.holds())+c.asked < c.lock.need }

// nest takes one level more of the parts if the owner holds a majority.
func (c *campaign) nest() bool {
	var mine []*seat
	for _, s := range c.seats {
		if s.lock.Depth(c.req.Owner) > 0 {
			mine = append(mine, s)
		}
	}
	if len(mine) < c.lock.need {
		return false
	}
	for _, s := range mine {
		s.held, s.denial = c.whole.takePart(c.ctx, s.lock, engine.Request{Lease: c.req.Lease})
	}
	return len(c.holds()) >= c.lock.need
}

// behind returns the first part that somebody else of this process has or waits for,
// nil if there is none: the caller goes behind them, and asks nobody.
func (c *campaign) behind() *seat {
	for _, s := range c.seats {
		if taken, _ := s.lock.Here(c.req.Owner); taken {
			return s
		}
	}
	return nil
}

// askAll asks every part that is neither held nor being asked, nor is silent to others
// of this process.
func (c *campaign) askAll() {
	for _, s := range c.seats {
		if s.held != nil || s.asking {
			continue
		}
		if s.lock.IsSilent() {
			s.denial = errSilent
			continue
		}
		wait := c.patience
		if _, freeing := s.lock.Here(c.req.Owner); freeing {
			wait = grace // it is denied here, and free there
		}
		c.ask(s, wait)
	}
}

func (c *campaign) ask(s *seat, wait time.Duration) {
	s.asking = true
	c.asked++
	go func() {
		h, err := c.whole.takePart(c.ctx, s.lock, engine.Request{Lease: c.req.Lease, Wait: max(wait, 0), Quit: c.quit})
		c.votes <- vote{s, h, err}
	}()
}

// count takes votes until it has a majority (true), or the end of ctx, the time is up,
// or it is said to be enough.
func (c *campaign) count(ctx context.Context, up <-chan time.Time, enough func() bool) (won bool) {
	for {
		if len(c.holds()) >= c.lock.need {
			c.keep(false)
			if len(c.holds()) >= c.lock.need {
				return true
			}
		}
		if enough() || ctx.Err() != nil {
			return false
		}
		select {
		case v := <-c.votes:
			c.take(v)
		case <-up:
			return false
		case <-ctx.Done():
		}
	}
}

func (c *campaign) take(v vote) {
	s := v.seat
	c.asked--
	s.asking, s.denial, s.held = false, v.err, v.hold
	if c.at != nil && s.part > c.at.part {
		s.drop()
	}
}

// holds returns what is held. A grant that is over does not count.
func (c *campaign) holds() []engine.Handle {
	holds := make([]engine.Handle, 0, len(c.seats))
	for _, s := range c.seats {
		if s.held != nil && !engine.Valid(s.held) {
			s.drop()
		}
		if s.held != nil {
			holds = append(holds, s.held)
		}
	}
	return holds
}

// keep has the watchdog keep what is held, or else has the lease begin of what it has
// kept.
func (c *campaign) keep(kept bool) {
	lease := c.req.Lease
	if kept {
		lease = 0
	}
	for _, s := range c.seats {
		if s.held != nil && c.req.Lease > 0 && s.kept != kept {
			s.kept = kept
			s.held.Relet(lease)
		}
	}
}

// isolated reports whether so few servers answer that there is no majority to be had.
func (c *campaign) isolated() bool {
	dead := 0
	for _, s := range c.seats {
		fault := s.denial != nil && !s.denied()
		if s.held == nil && (fault || s.asking && c.rounds > 1 && s.lock.IsSilent()) {
			dead++
		}
	}
	return dead > len(c.seats)-c.lock.need
}

// firstDenial returns the first part that said that another has it, nil if none did. One
// that has not answered yet to somebody else of this process may be dead.
func (c *campaign) firstDenial() *seat {
	for _, s := range c.seats {
		if s.denied() && !s.asking && !errors.Is(s.denial, engine.ErrUnanswered) {
			return s
		}
	}
	return nil
}

// wait waits for a while at the part, or for servers to come back if there is none to
// wait at; campaigns of others that reach more servers may use its parts meanwhile. It
// reports whether it has a majority.
func (c *campaign) wait(ctx context.Context) (won bool) {
	for _, s := range c.seats {
		if c.at == nil || s.part > c.at.part || c.stuck && s != c.at {
			s.drop()
		}
	}
	c.keep(true)
	granted := false
	if left := c.req.Left(c.began); c.at == nil {
		won = c.pause(ctx, left)
	} else {
		won = c.waitAt(ctx, c.at, left)
		granted = c.at.held != nil
	}
	c.patience = 0
	if granted {
		c.patience = grace
	}
	c.stuck = !granted && !c.stuck
	c.at = nil
	return won
}

// pause takes votes for a while, which is longer each time in a row.
func (c *campaign) pause(ctx context.Context, most time.Duration) (won bool) {
	pause := time.NewTimer(min(wire.Jitter(min(wire.FirstRetry<<min(c.fails, 10), wire.LastRetry)), most))
	defer pause.Stop()
	if c.fails == 0 {
		c.since = time.Now()
	}
	c.fails++
	c.lock.home.TellTrouble(c.lock.name, c.since, c.fault())
	return c.count(ctx, pause.C, func() bool { return false })
}

// waitAt waits until the part has answered, or for so long at most that another server may
// answer sooner.
func (c *campaign) waitAt(ctx context.Context, s *seat, most time.Duration) (won bool) {
	c.fails = 0
	wait := min(wire.Jitter(lookAround), most)
	if !s.asking && s.held == nil {
		c.ask(s, wait)
	}
	answered := func() bool { return !s.asking }
	for until := time.Now().Add(wait + grace); !won && !answered() && ctx.Err() == nil; {
		look := time.NewTimer(min(engine.Silence, time.Until(until)))
		won = c.count(ctx, look.C, answered)
		look.Stop()
		if s.lock.IsSilent() || !time.Now().Before(until) {
			break
		}
	}
	return won
}

// over returns why the campaign is over without a majority, nil if it goes on.
func (c *campaign) over(ctx context.Context) error {
	denied, hopeless, spare := 0, 0, len(c.seats)-c.lock.need
	for _, s := range c.seats {
		if s.denied() {
			denied++
		}
		if err := s.fault(); err != nil && incurable(err) {
			hopeless++
		}
	}
	fault := c.fault()
	switch name := c.lock.name; {
	case ctx.Err() != nil:
		return fmt.Errorf("rlock: lock %q: %w", name, wire.TimeUp(ctx, fault))
	case hopeless <= spare && c.req.Left(c.began) > 0:
		return nil
	case hopeless <= spare && (denied > spare || fault == nil):
		return fmt.Errorf("rlock: lock %q: %w", name, engine.ErrNotAcquired)
	default:
		return fmt.Errorf("rlock: lock %q: no majority, which is %d servers: %w", name, c.lock.need, fault)
	}
}

// fault returns what the servers said last that neither granted their parts nor denied them.
func (c *campaign) fault() error {
	var faults []error
	for _, s := range c.seats {
		if err := s.fault(); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", s.lock.Client.Redis.Where(), err))
		}
	}
	return errors.Join(faults...)
}

// follow takes the votes that are still to come: what is granted joins the whole, if
// there is one that is not over, and is released otherwise.
func (c *campaign) follow(whole *hold) {
	defer c.leave()
	for c.asked > 0 {
		v := <-c.votes
		c.asked--
		if h := v.hold; h != nil && (whole == nil || !whole.add(h)) {
			go func() { _ = engine.Release(h.Context(), h) }()
		}
	}
}
