package redisson

import "time"

// Redis wakes all who wait for a permit at once, and of these a goroutine is sooner than a thread, and one of the process that
// has released it than one elsewhere: with a single permit the others had one section in ten, or in fifty. So a process that
// has released more permits than it has heard others release, while clients elsewhere listen, leaves them a turn: it takes none
// before that is over, or another client has released one. A client may listen and not wait, so after a turn in vain the next
// one is longer, and 16 times as far away.
const (
	shortestTurn = 10 * time.Millisecond // a thread on a busy machine has been to Redis by then
	longestTurn  = 40 * time.Millisecond
	vainTurns    = 16
	mostAhead    = 2 // releases, by either side
	echoTime     = 20 * time.Millisecond
)

// A turn is that of the others on one channel. The client's mutex protects it.
type turn struct {
	until  time.Time     // when it is over
	length time.Duration // of the next one
	next   time.Time     // when the next one may begin
	judged bool          // whether it is known if the last one was used
	ahead  int           // how many more permits were released here than elsewhere, of late
	echoes int           // messages of ours that this process may still hear
	echoBy time.Time     // until then: if no call waits here they are not heard
}

// releases notes that a command is about to be sent that releases permits.
func (o *object) releases() {
	c := o.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shared.Hub.Confirmed(o.channel) {
		t, now := c.turnOf(o.channel), time.Now()
		if now.After(t.echoBy) {
			t.echoes = 0
		}
		t.echoes, t.echoBy = t.echoes+1, now.Add(echoTime)
	}
}

// leavesTurn leaves the others a turn after a release whose message so many subscribers have got.
func (o *object) leavesTurn(receivers int64) {
	c := o.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shared.Hub.Confirmed(o.channel) {
		receivers--
	}
	now, t := time.Now(), c.turnOf(o.channel)
	switch {
	case receivers < 0: // there was no message
		t.echoes = max(t.echoes-1, 0)
	case receivers > 0:
		t.ahead = min(t.ahead+1, mostAhead)
		if t.ahead > 0 && !now.Before(t.until) && !now.Before(t.next) {
			t.until, t.judged = now.Add(t.length), false
		}
	}
}

// turnOf returns the turn of a channel. The mutex is locked. Those that are over for long are forgotten.
func (c *Client) turnOf(channel string) *turn {
	t := c.turns[channel]
	if t == nil {
		now := time.Now()
		for name, old := range c.turns {
			if now.Sub(old.until) > time.Minute && c.rooms[name] == nil {
				delete(c.turns, name)
			}
		}
		t = &turn{length: shortestTurn, judged: true}
		c.turns[channel] = t
	}
	return t
}

// waitsFor returns for how much longer the turn of the others lasts, 0 if it is over.
func (o *object) waitsFor() time.Duration {
	c := o.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.turns[o.channel]; t != nil {
		return max(time.Until(t.until), 0)
	}
	return 0
}

// judges notes whether a permit was free at the first attempt after a turn: then no other has used it.
func (o *object) judges(got bool) {
	c := o.client
	c.mu.Lock()
	defer c.mu.Unlock()
	t, now := c.turns[o.channel], time.Now()
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

// hears notes a message on the channel: unless it is ours another client has released a permit, and has had its turn.
func (c *Client) hears(channel string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch t := c.turns[channel]; {
	case t == nil:
	case t.echoes > 0 && time.Now().Before(t.echoBy):
		t.echoes--
	default:
		t.until, t.length, t.judged, t.ahead = time.Time{}, shortestTurn, true, max(t.ahead-1, -mostAhead)
	}
}

// confirmed notes that the subscription is confirmed: messages before it are lost.
func (c *Client) confirmed(channel string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.turns[channel]; t != nil {
		t.echoes = 0
	}
}
