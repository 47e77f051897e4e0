package core

import "slices"

// An EffectKind says what a driver has to do.
type EffectKind uint8

const (
	Wake         EffectKind = iota // the Waiter has an outcome
	Poll                           // the Tenure may have something to send: Waiter's goroutine polls it, or without one the keeper. Without a Tenure the time of Waiter has changed
	Lose                           // the holders of Lost, for Cause
	Released                       // the call that released the Tenure may return, for Cause
	Subscribe                      // to the client's channel of the lock: Lock.Listening has the result
	Unsubscribe                    // from it
	ListenAbroad                   // subscribe to what foreign clients are told: Lock.ListeningAbroad
	IgnoreAbroad                   // end that
)

// An Effect is something for a driver to do, in the order in which they come.
type Effect struct {
	Kind   EffectKind
	Cause  Cause
	Lock   *Lock
	Waiter *Waiter
	Tenure *Tenure
	Lost   []Level
}

// A Cause is why a hold has ended, or what became of a release.
type Cause uint8

const (
	ByUnlock    Cause = iota // it was released
	LeaseEnded               // the lease that its holder has asked for
	Unrenewed                // Redis has not confirmed it in time
	KeyGone                  // Redis does not show it any more
	ByForce                  // this client has released it by force
	ByClose                  // the client closes
	Unconfirmed              // the release has no answer
)

// TakeEffects returns what the driver has to do since the last call. The slice is valid until the next one, so that
// carrying them out may bring about more.
func (c *Client) TakeEffects() []Effect {
	e := c.Effects
	c.Effects, c.taken = c.taken[:0], e
	return e
}

func (l *Lock) tell(e Effect) {
	e.Lock = l
	l.client.Effects = append(l.client.Effects, e)
}

// touch asks the tenure's agent for a poll, the goroutine of its waiter or the keeper, since there
// may be something to send, or an earlier time to look. When the agent changes it is called again.
func (l *Lock) touch(t *Tenure) {
	if t.releases {
		return // the call that releases it polls it
	}
	t.alarm = 0
	e := Effect{Kind: Poll, Lock: l, Tenure: t, Waiter: t.waiter}
	for i := max(0, len(l.client.Effects)-4); i < len(l.client.Effects); i++ { // most doubles come soon, and others are harmless
		if o := &l.client.Effects[i]; o.Kind == Poll && o.Tenure == t && o.Waiter == e.Waiter {
			return
		}
	}
	l.client.Effects = append(l.client.Effects, e)
}

// changed schedules a mirror if Redis shows other levels, and a look at their ends. The agent of
// the owner is the same as before: so it is told only of a time that is sooner than what it knows.
// For levels that Redis shows only their ends may be: the table has the same commands for Held and Kept.
func (l *Lock) changed(now Now) {
	t := l.owner
	if t.alarm <= now.Time || t.alarm <= l.ends(now) && l.shows(t, now) {
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
