package checker_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

// A bug is one thing that a lock can do wrong.
type bug string

const (
	none            bug = "none"
	noOwnerCheck    bug = "no check of the owner on release"
	incrementTwice  bug = "an increment sent twice"
	notCounted      bug = "a nested lock that is not counted"
	renewalAfter    bug = "a renewal after unlock"
	fromReply       bug = "validity from the reply instead of from the send"
	swallowedWake   bug = "a swallowed wake"
	repeatedToken   bug = "a token repeated"
	toldTwice       bug = "a loss told twice"
	neverTold       bug = "a loss never told"
	toldLate        bug = "a loss told when the lock may be another's"
	believedForever bug = "a hold believed after it was valid"

	// Of readers.
	writerBeside  bug = "a writer beside readers"
	readerBeside  bug = "a reader beside a writer"
	firstOutFrees bug = "the first reader who leaves frees the lock for all"
	countedAsOne  bug = "the levels of all readers counted as one owner's"
	shortestLease bug = "the shortest lease of the readers in place of the longest"
)

// ofReaders are the bugs that only a lock with readers can have.
var ofReaders = []bug{writerBeside, readerBeside, firstOutFrees, countedAsOne, shortestLease}

// A server is a Redis with one lock.
type server struct {
	bug bug

	mu      sync.Mutex // protects following
	tenure  string     // the tenure that has the lock, "" if none
	expiry  time.Time
	readers map[string]time.Time // by tenure: when the lease ends
	token   uint64
	frees   int
	waiters []chan struct{}
}

// acquire returns a token if the lock is granted, otherwise the time until the next look, and
// a channel for an earlier message.
func (s *server) acquire(tenure string, lease time.Duration, shared bool) (token uint64, wait time.Duration, message chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	until := now // another owner has the lock
	if s.tenure != "" && !(shared && s.bug == readerBeside) {
		until = s.expiry
	}
	if !shared && s.bug != writerBeside {
		until = latest(until, s.readUntilLocked())
	}
	if until.After(now) {
		message = make(chan struct{}, 1)
		s.waiters = append(s.waiters, message)
		return 0, until.Sub(now), message
	}
	if shared {
		s.readers[tenure] = now.Add(lease)
	} else {
		s.tenure, s.expiry = tenure, now.Add(lease)
		clear(s.readers)
	}
	if s.token++; s.bug == repeatedToken && s.token%5 == 0 {
		s.token--
	}
	return s.token, 0, nil
}

func (s *server) renew(tenure string, lease time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	free := s.tenure == "" || !now.Before(s.expiry)
	if until, reads := s.readers[tenure]; reads {
		if now.Before(until) {
			s.readers[tenure] = now.Add(lease)
			return true
		}
		return false
	}
	ours := s.tenure == tenure && !free
	if s.bug == renewalAfter && free { // a script that sets without looking
		s.tenure, ours = tenure, true
	}
	if ours {
		s.expiry = now.Add(lease)
	}
	return ours
}

func (s *server) release(tenure string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until, reads := s.readers[tenure]; reads {
		delete(s.readers, tenure)
		if len(s.readers) == 0 || s.bug == firstOutFrees {
			s.freeLocked()
		}
		return time.Now().Before(until)
	}
	ours := s.tenure == tenure && time.Now().Before(s.expiry)
	if ours || s.bug == noOwnerCheck {
		s.freeLocked()
	}
	return ours
}

// del deletes the key, and reports whether it existed.
func (s *server) del() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	held := s.tenure != "" && now.Before(s.expiry) || s.readUntilLocked().After(now)
	s.freeLocked()
	return held
}

func (s *server) freeLocked() {
	s.tenure = ""
	clear(s.readers)
	if s.frees++; s.bug == swallowedWake && s.frees%5 == 0 {
		s.waiters = nil
	}
	for _, message := range s.waiters {
		message <- struct{}{}
	}
	s.waiters = nil
}

// readUntilLocked returns when the lease of the last reader ends.
func (s *server) readUntilLocked() (until time.Time) {
	for _, lease := range s.readers {
		if s.bug != shortestLease || until.IsZero() {
			until = latest(until, lease)
		} else if lease.Before(until) {
			until = lease
		}
	}
	return until
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

var (
	errLost    = errors.New("lost")
	errNotHeld = errors.New("not held")
	errRefused = errors.New("refused")
)

// A client is the part of a lock in a process: a minimal correct one, but for its bug.
type client struct {
	server *server
	bug    bug
	ctx    context.Context // ends its background work

	seed uint64

	mu      sync.Mutex       // protects following
	holds   map[string]*hold // by owner
	tenures map[string]int   // the number of tenures that each owner has begun
}

// A hold is the hold of an owner.
type hold struct {
	owner, tenure string
	token         uint64
	lease         time.Duration
	tell          func()  // notifies of the loss
	network       network // of the goroutine that locks and unlocks

	// The client's mutex protects following.

	levels int
	until  time.Time // when it ends by the client's clock
	lost   bool
	given  chan struct{} // closed with the last unlock
}

// A network takes some time one way, now and then a long time. Each goroutine has its own, so
// that the order in which goroutines run at one moment changes nothing.
type network struct{ random *rand.Rand }

func (c *client) network(tenure string) network {
	h := fnv.New64a()
	_, _ = io.WriteString(h, tenure) // never fails
	return network{rand.New(rand.NewPCG(c.seed, h.Sum64()))}
}

func (n network) travel() {
	took := time.Duration(1 + n.random.Int64N(int64(time.Millisecond)))
	if n.random.IntN(8) == 0 {
		took += time.Duration(n.random.Int64N(int64(400 * time.Millisecond)))
	}
	time.Sleep(took)
}

// trust returns the end of the validity of a lease that was asked for at sent.
func (c *client) trust(sent time.Time, lease time.Duration) time.Time {
	if c.bug == fromReply {
		sent = time.Now()
	}
	return sent.Add(lease - lease/100 - 2*time.Millisecond)
}

func (c *client) validLocked(h *hold) bool {
	return h != nil && (c.bug == believedForever || !h.lost && time.Now().Before(h.until))
}

// belief returns whether the owner has the lock, until when, and how many levels.
func (c *client) belief(owner string) (held bool, until time.Time, levels int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.holds[owner]
	if !c.validLocked(h) {
		return false, time.Time{}, 0
	}
	levels = h.levels
	if c.bug == countedAsOne {
		levels = 0
		for _, h := range c.holds {
			levels += h.levels
		}
	}
	return true, h.until, levels
}

// lock takes a level. A kept lock is renewed until the last unlock.
func (c *client) lock(ctx context.Context, owner string, shared bool, lease time.Duration, kept, wait bool, tell func()) (token uint64, err error) {
	c.mu.Lock()
	if h := c.holds[owner]; c.validLocked(h) {
		defer c.mu.Unlock()
		switch h.levels++; c.bug {
		case incrementTwice:
			h.levels++
		case notCounted:
			h.levels--
		}
		return h.token, nil
	}
	c.tenures[owner]++
	tenure := fmt.Sprintf("%s/%d", owner, c.tenures[owner])
	c.mu.Unlock()
	h := &hold{
		owner: owner, tenure: tenure, lease: lease, tell: tell, network: c.network(tenure),
		levels: 1, given: make(chan struct{}),
	}
	for {
		sent := time.Now()
		h.network.travel()
		token, left, message := c.server.acquire(h.tenure, lease, shared)
		h.network.travel()
		switch {
		case token != 0 && ctx.Err() != nil:
			c.server.release(h.tenure)
			return 0, ctx.Err()
		case token != 0:
			h.token, h.until = token, c.trust(sent, lease)
			c.mu.Lock()
			c.holds[owner] = h
			c.mu.Unlock()
			go c.expire(h)
			if kept {
				go c.keep(h)
			}
			return token, nil
		case !wait:
			return 0, errRefused
		}
		fallback := min(left, 5*time.Second)
		if c.bug == swallowedWake {
			fallback = time.Hour
		}
		select {
		case <-message:
		case <-time.After(fallback):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (c *client) keep(h *hold) {
	given := h.given
	if c.bug == renewalAfter {
		given = nil
	}
	network := c.network(h.tenure + " kept")
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-given:
			return
		case <-time.After(h.lease / 3):
		}
		sent := time.Now()
		network.travel()
		ours := c.server.renew(h.tenure, h.lease)
		network.travel()
		if !ours {
			c.lose(h)
			return
		}
		c.mu.Lock()
		h.until = c.trust(sent, h.lease)
		c.mu.Unlock()
	}
}

func (c *client) expire(h *hold) {
	for {
		c.mu.Lock()
		left := time.Until(h.until)
		c.mu.Unlock()
		if left <= 0 {
			c.lose(h)
			return
		}
		select {
		case <-c.ctx.Done():
			return
		case <-h.given:
			return
		case <-time.After(left):
		}
	}
}

func (c *client) lose(h *hold) {
	if c.bug == toldLate {
		time.Sleep(2 * time.Second)
	}
	c.mu.Lock()
	known := h.lost || c.holds[h.owner] != h
	h.lost = true
	c.mu.Unlock()
	if known || c.bug == neverTold {
		return
	}
	h.tell()
	if c.bug == toldTwice {
		h.tell()
	}
}

func (c *client) unlock(owner string) error {
	c.mu.Lock()
	h := c.holds[owner]
	if h == nil {
		c.mu.Unlock()
		return errNotHeld
	}
	held := c.validLocked(h)
	h.levels--
	last := h.levels == 0
	if last {
		close(h.given)
		delete(c.holds, owner)
	}
	c.mu.Unlock()
	if last && (held || c.bug == noOwnerCheck) {
		h.network.travel()
		held = c.server.release(h.tenure) && held
		h.network.travel()
	}
	if !held && c.bug != neverTold {
		return errLost
	}
	return nil
}
