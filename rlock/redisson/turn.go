package redisson

import (
	"sync"
	"time"
)

// A message wakes all waiters for a permit at once. Then a goroutine is faster than a thread of
// Java, and a goroutine of the process that has released the permit is faster than any elsewhere:
// with a single permit the others got it once in ten times, or in fifty. So a process that has
// released more permits than it has heard others release leaves them a turn, if clients elsewhere
// listen: it takes no permit until another client has released one, or the turn is over.

// turnTime is the length of a turn. Within it a thread of Java on a busy machine, or a process with
// a round trip of 10 ms, has reached Redis, so that each side gets half of the sections. A process
// with a longer round trip gets a tenth of them, as without turns.
const turnTime = 10 * time.Millisecond

// vainTurns is the pause, in turns, after a turn that nobody has used: a client may listen and not
// wait. Unused turns then cost one part in 17 of the time, 6 %.
const vainTurns = 16

// turns has the turn of the other processes on each channel.
type turns struct {
	mu  sync.Mutex // guards the fields below; taken under the hub's mutex, so no other mutex is taken under it
	all map[string]*turn
}

// A turn is the time that this process leaves to the others on one channel.
type turn struct {
	until  time.Time // the end of the turn
	next   time.Time // the earliest beginning of the next turn
	judged bool      // whether it is known if the last turn was used
	ahead  int       // 1 if this process has released more permits than the others, -1 if fewer, 0 if as many
	echoes int       // the number of messages of this process that it has not heard yet
	used   time.Time // the time of the last release
}

// noteRelease notes that a command that releases permits is about to be sent.
func (o *object) noteRelease() {
	if !o.client.shared.Hub.Confirmed(o.channel) {
		return
	}
	t := o.client.turns.lock(o.channel)
	defer o.client.turns.mu.Unlock()
	t.echoes++
}

// leaveTurn begins a turn of the others after a release. receivers is the number of subscribers
// that its message has reached.
func (o *object) leaveTurn(receivers int64) {
	if o.client.shared.Hub.Confirmed(o.channel) {
		receivers--
	}
	ts := &o.client.turns
	if receivers <= 0 {
		if receivers < 0 { // no message was published
			ts.noEcho(o.channel)
		}
		return
	}
	t, now := ts.lock(o.channel), time.Now()
	defer ts.mu.Unlock()
	t.ahead = min(t.ahead+1, 1)
	if t.ahead > 0 && !now.Before(t.until) && !now.Before(t.next) {
		t.until, t.judged = now.Add(turnTime), false
	}
}

// noEcho undoes noteRelease: no message was published, or it is not known whether one was. If a
// message of this process comes after all, it counts as a message of others, and ends one turn
// early.
func (ts *turns) noEcho(channel string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.all[channel]; t != nil {
		t.echoes = max(t.echoes-1, 0)
	}
}

// lock locks the mutex, and returns the turn of a channel. It forgets channels that have had no
// release for a minute.
func (ts *turns) lock(channel string) *turn {
	ts.mu.Lock()
	t, now := ts.all[channel], time.Now()
	if t == nil {
		if ts.all == nil {
			ts.all = make(map[string]*turn)
		}
		for name, old := range ts.all {
			if now.Sub(old.used) > time.Minute {
				delete(ts.all, name)
			}
		}
		t = &turn{judged: true}
		ts.all[channel] = t
	}
	t.used = now
	return t
}

// turnLeft returns the rest of the turn of the others; 0 if it is over.
func (o *object) turnLeft() time.Duration {
	ts := &o.client.turns
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.all[o.channel]; t != nil {
		return max(time.Until(t.until), 0)
	}
	return 0
}

// noteFirst notes whether the first attempt after a turn got a permit. If it did, no other process
// has used the turn.
func (o *object) noteFirst(got bool) {
	ts := &o.client.turns
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t, now := ts.all[o.channel], time.Now()
	if t == nil || t.judged || now.Before(t.until) {
		return
	}
	t.judged = true
	if got {
		t.next, t.ahead = now.Add(vainTurns*turnTime), 0
	}
}

// hear notes a message on the channel. If the message is not of this process, another client has
// released a permit, and has had its turn.
func (ts *turns) hear(channel string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	switch t := ts.all[channel]; {
	case t == nil:
	case t.echoes > 0:
		t.echoes--
	default:
		t.until, t.judged, t.ahead = time.Time{}, true, max(t.ahead-1, -1)
	}
}

// confirmed notes that the subscription is confirmed: earlier messages were lost.
func (ts *turns) confirmed(channel string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.all[channel]; t != nil {
		t.echoes = 0
	}
}
