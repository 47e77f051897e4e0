package redisson

import (
	"sync"
	"time"
)

// A message wakes all that wait for a permit at once. Then a goroutine is faster than a thread of
// Java, and a goroutine of the process that has released the permit is faster than one elsewhere:
// with a single permit the others got it once in ten times, or in fifty. So a process leaves the
// others a turn if it has released more permits than it has heard them release, and clients
// elsewhere listen: it takes no permit until another client has released one, or the turn is over.
// A client may listen and not wait. So after a turn in vain the next one is longer, and 16 times as
// far away.
const (
	shortestTurn = 10 * time.Millisecond // a thread on a busy machine has been to Redis by then
	longestTurn  = 40 * time.Millisecond
	vainTurns    = 16
	mostAhead    = 2                     // the most releases by which a side counts as ahead
	echoTime     = 20 * time.Millisecond // the time in which a message of ours comes back
)

// turns has the turn of the other processes on each channel.
type turns struct {
	mu  sync.Mutex // guards the fields below; no other mutex is taken under it, as it is taken under the hub's
	all map[string]*turn
}

// A turn is the time that this process leaves to the others on one channel.
type turn struct {
	until  time.Time     // the end of the turn
	length time.Duration // the length of the next turn
	next   time.Time     // the earliest beginning of the next turn
	judged bool          // whether the last turn was used is known
	ahead  int           // the number of releases here, less the releases elsewhere, at most mostAhead
	echoes int           // the messages of ours that this process may still hear
	echoBy time.Time     // the time until which these may be heard
	used   time.Time     // the time of the last release
}

// releases notes that a command that releases permits is about to be sent.
func (o *object) releases() {
	if !o.client.shared.Hub.Confirmed(o.channel) {
		return
	}
	t, now := o.client.turns.lock(o.channel), time.Now()
	defer o.client.turns.mu.Unlock()
	if now.After(t.echoBy) {
		t.echoes = 0
	}
	t.echoes, t.echoBy = t.echoes+1, now.Add(echoTime)
}

// leavesTurn begins a turn of the others after a release, whose message has reached so many
// subscribers.
func (o *object) leavesTurn(receivers int64) {
	if o.client.shared.Hub.Confirmed(o.channel) {
		receivers--
	}
	ts := &o.client.turns
	if receivers <= 0 {
		if receivers < 0 { // there was no message
			ts.noEcho(o.channel)
		}
		return
	}
	t, now := ts.lock(o.channel), time.Now()
	defer ts.mu.Unlock()
	t.ahead = min(t.ahead+1, mostAhead)
	if t.ahead > 0 && !now.Before(t.until) && !now.Before(t.next) {
		t.until, t.judged = now.Add(t.length), false
	}
}

// noEcho undoes releases: no message was published.
func (ts *turns) noEcho(channel string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.all[channel]; t != nil {
		t.echoes = max(t.echoes-1, 0)
	}
}

// lock locks the mutex, and returns the turn of a channel. It forgets channels without a release
// for a minute.
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
		t = &turn{length: shortestTurn, judged: true}
		ts.all[channel] = t
	}
	t.used = now
	return t
}

// waitsFor returns the rest of the turn of the others, 0 if it is over.
func (o *object) waitsFor() time.Duration {
	ts := &o.client.turns
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.all[o.channel]; t != nil {
		return max(time.Until(t.until), 0)
	}
	return 0
}

// noteFirst notes whether the first attempt after a turn has got a permit: then no other process
// has used the turn.
func (o *object) noteFirst(got bool) {
	ts := &o.client.turns
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t, now := ts.all[o.channel], time.Now()
	switch {
	case t == nil || t.judged || now.Before(t.until):
		return
	case got:
		t.next, t.length, t.ahead = now.Add(vainTurns*t.length), min(2*t.length, longestTurn), 0
	default:
		t.length = shortestTurn
	}
	t.judged = true
}

// hears notes a message on the channel. Unless the message is ours, another client has released a
// permit, and has had its turn.
func (ts *turns) hears(channel string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	switch t := ts.all[channel]; {
	case t == nil:
	case t.echoes > 0 && time.Now().Before(t.echoBy):
		t.echoes--
	default:
		t.until, t.length, t.judged, t.ahead = time.Time{}, shortestTurn, true, max(t.ahead-1, -mostAhead)
	}
}

// confirmed notes that the subscription is confirmed: messages before that are lost.
func (ts *turns) confirmed(channel string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.all[channel]; t != nil {
		t.echoes = 0
	}
}
