package wire

import (
	"context"
	"strconv"
	"time"
)

// A Passage is the result of PutTicketFirst. Unless it is LetFirst, nothing was changed.
type Passage int64

const (
	LetFirst   Passage = 1  // the ticket stands first, and its client is notified
	NoTicket   Passage = 0  // the ticket is not in the queue
	NoHolder   Passage = -1 // none of the holders has the lock
	NoTaker    Passage = -2 // such a ticket cannot take the lock over: a reader's, or one that takes an answer
	NoListener Passage = -3 // the client of the ticket does not listen
)

// PutTicketFirst puts a ticket before all others. From then on the ticket takes the lock over from
// one of the holders, with that grace: see scripts/let_through.lua.
func (r *Redis) PutTicketFirst(ctx context.Context, k *Keys, ticket OwnerText, grace time.Duration, holders []OwnerText) (Passage, error) {
	call := r.letThroughCall(k, ticket, grace, holders)
	left, err := Promptly(ctx, r, k.Slot, func(ctx context.Context) (int64, error) { return r.Do(ctx, call).AsInt64() })
	return Passage(left), err
}

func (r *Redis) letThroughCall(k *Keys, ticket OwnerText, grace time.Duration, holders []OwnerText) Call {
	c := Call{Script: letThrough, Keys: []string{k.Key, k.Queue()}, Args: []string{r.family, string(ticket), strconv.FormatInt(max(grace, 0).Milliseconds(), 10)}}
	for _, holder := range holders {
		c.Args = append(c.Args, string(holder))
	}
	return c
}
