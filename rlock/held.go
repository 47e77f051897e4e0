package rlock

import "github.com/go-rlock/rlock/rlock/inspect"

// Held returns the locks that this client holds, those that it has held the longest first,
// and by name where the times are equal: one for each owner of each lock. Of a lock over
// several these are the locks that it is made of. It is for people and tests: it asks
// Redis nothing, but looks at every lock, one of 64 parts of a kind after the other.
// [Client.Stats] has the number at less cost.
func (c *Client) Held() []inspect.Held {
	all := c.diag.Held()
	held := make([]inspect.Held, len(all))
	for i, h := range all {
		held[i] = inspect.Held{
			Name: c.named(h.Name), Kind: Kind(h.Kind), Owner: h.Owner.ID, Since: h.Since, ValidUntil: h.ValidUntil,
			Depth: h.Depth, PartOf: h.PartOf, Place: inspect.Place(h.Place),
		}
	}
	return held
}
