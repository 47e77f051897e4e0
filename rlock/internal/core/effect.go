package core

import (
	"slices"

	"github.com/go-rlock/rlock/internal/enum"
)

// An EffectKind says what a driver has to do.
type EffectKind uint8

const (
	Wake         EffectKind = iota // the Call has an outcome
	Poll                           // the Tenure is due At: Call's goroutine asks Next then, or without one the keeper asks. Without a Tenure: the Call is due At
	Ended                          // the Tenure is over
	Lose                           // the holders of Lost, for Cause
	Subscribe                      // to the client's channel of the lock: Lock.Listening has the result
	Unsubscribe                    // from it
	ListenAbroad                   // subscribe to what foreign clients are told: Lock.ListeningAbroad
	IgnoreAbroad                   // end that
)

func (e EffectKind) String() string {
	return enum.Name(e, "EffectKind", "Wake", "Poll", "Ended", "Lose", "Subscribe", "Unsubscribe", "ListenAbroad", "IgnoreAbroad")
}

// An Effect is something for a driver to do, in the order in which they come.
type Effect struct {
	Kind   EffectKind
	Cause  Cause
	Lock   *Lock
	Call   *Call
	Tenure *Tenure
	At     Time
	Lost   []Level
}

// A Cause is why a hold has ended, or what became of a release.
type Cause uint8

const (
	ByUnlock    Cause = iota // it was released
	LeaseEnded               // the lease that its holder has asked for
	TooLong                  // it has lasted for as long as its holder may hold the lock
	Unrenewed                // Redis has not confirmed it in time
	KeyGone                  // Redis does not show it any more
	ByForce                  // this client has released it by force
	ByClose                  // the client closes
	Unconfirmed              // the release has no answer
)

func (c Cause) String() string {
	return enum.Name(c, "Cause", "ByUnlock", "LeaseEnded", "TooLong", "Unrenewed", "KeyGone", "ByForce", "ByClose", "Unconfirmed")
}

// TakeEffects returns what the driver has to do since the last call. The slice is valid until the next one, so that
// carrying the effects out may bring about more. The time of each tenure that an event has touched is found here, once.
func (c *Client) TakeEffects(now Now) []Effect {
	e := c.Effects
	c.Effects, c.taken = c.taken[:0], e
	n := 0
	for i := range e {
		if e[i].Kind == Poll && e[i].Tenure != nil && !e[i].Lock.schedule(&e[i], now) {
			continue
		}
		if n < i {
			e[n] = e[i]
		}
		n++
	}
	clear(e[n:])
	return e[:n]
}

// schedule fills in when the tenure is due, and whose goroutine asks then. It reports whether that one has to be told: a call
// asks by itself if it is awake, or comes sooner.
func (l *Lock) schedule(e *Effect, now Now) bool {
	t := e.Tenure
	if t.lock != l || !t.touched {
		return false // it was forgotten since, or another effect has told its time
	}
	t.touched = false
	if t.isOver(now) {
		l.forget(t, now)
		l.settle(now)
		return false
	}
	c := t.call
	if t.alarm = 0; c != nil && !c.asleep {
		return false
	}
	_, t.alarm = t.next(now)
	e.Call, e.At = c, t.alarm
	return c == nil || e.At < c.alarm
}

func (l *Lock) tell(e Effect) {
	e.Lock = l
	l.client.Effects = append(l.client.Effects, e)
}

// touch notes that the tenure may be due at another time than its agent knows, or that its agent is another: that of the
// call for which it stands, or the keeper.
func (l *Lock) touch(t *Tenure) {
	if !t.touched {
		t.touched = true
		l.tell(Effect{Kind: Poll, Tenure: t})
	}
}

// changed schedules a mirror if Redis shows other levels, and a look at their ends. The agent of the owner is the same as
// before: so it is told only of a time that is sooner than the one it knows.
func (l *Lock) changed(now Now) {
	t := l.owner
	if t.touched || t.alarm <= now.Time || t.alarm <= l.ends(now) && l.isMirrored(t, now) {
		return
	}
	if _, at := t.next(now); at < t.alarm {
		l.touch(t)
	}
}

func (l *Lock) loses(lost []Level, cause Cause) {
	if len(lost) > 0 {
		l.tell(Effect{Kind: Lose, Tenure: l.owner, Lost: slices.Clone(lost), Cause: cause})
	}
}
