package redisson

import "time"

// Turns returns the number of turns that the client remembers.
func (c *Client) Turns() int {
	c.turns.mu.Lock()
	defer c.turns.mu.Unlock()
	return len(c.turns.all)
}

// AskNow asks the permit before its time, as the keeper does after the machine has slept.
func (p *Permit) AskNow() {
	p.of.client.keeping.keeper.Stop(p)
	p.Due(time.Now())
}
