package rlock

import (
	"context"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Ask asks other clients for the holds and the waits of their owners: Redis shows one place in
// the queue for each client, however many of its goroutines wait. The ids are those of
// [Client.ID], which begin the text of each holder and waiter of [Client.Inspect]. Ask is for
// people and tools: each client must look at all its locks.
//
// It returns the answers that have come when all have come, after a second, or when ctx ends; the
// end of ctx is no error then. A client does not answer that is gone, has never held a lock, is
// of an older version, or has [Config.NoAnswers] or [Config.NoClientChannel] set. An answer has
// up to 500 uses, in 64 KiB. Answers are not authenticated. An error means that not all clients
// were asked.
func (c *Client) Ask(ctx context.Context, ids ...string) ([]inspect.Answer, error) {
	for _, id := range ids {
		if len(id) != wire.ClientLen {
			return nil, fmt.Errorf("rlock: ask %q: %w: it is no id of a client", id, ErrInvalidConfig)
		}
	}
	heard, err := c.diag.Ask(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("rlock: ask clients: %w", err)
	}
	answers := make([]inspect.Answer, len(heard))
	for i, a := range heard {
		answers[i] = inspect.Answer{Client: a.Client, At: time.UnixMilli(a.At), Cut: a.Cut, Uses: make([]inspect.Use, len(a.Uses))}
		for j, u := range a.Uses {
			use := inspect.Use{
				Name: c.named(u.Lock), Kind: Kind(u.Kind), Owner: u.Owner, Goroutine: u.Goroutine,
				Waits: u.Waits, Since: time.UnixMilli(u.Since), PartOf: u.PartOf,
			}
			if u.Place != nil {
				use.Place = inspect.Place(*u.Place)
			}
			answers[i].Uses[j] = use
		}
	}
	return answers, nil
}
