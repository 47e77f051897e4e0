package deadlock

import (
	"cmp"
	"context"
	"slices"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// A View is the observed state of some locks.
type View struct {
	Locks   []inspect.Lock
	Answers []inspect.Answer
	Asked   int      // the number of clients asked: those that hold a lock
	Silent  []Client // those of them that did not answer
	// Unasked is the reason why no client could be asked, nil if they were.
	Unasked error
}

// A Client is one of rlock that holds a lock.
type Client struct {
	ID      string
	Process *inspect.Process // nil if it is not known
}

// Look asks the clients that hold the locks. It fails only with ctx: without the rights to
// ask, the view has the state in Redis.
func Look(ctx context.Context, client *rlock.Client, locks []inspect.Lock) (View, error) {
	v := View{Locks: locks}
	holding := make(map[string]Client)
	for _, lock := range locks {
		for _, h := range lock.Holders {
			if id := clientOf(h.Owner, h.Foreign); id != "" {
				holding[id] = Client{id, h.Process}
			}
		}
	}
	v.Asked = len(holding)
	if len(holding) == 0 {
		return v, nil
	}
	ids := make([]string, 0, len(holding))
	for id := range holding {
		ids = append(ids, id)
	}
	if v.Answers, v.Unasked = client.Ask(ctx, ids...); ctx.Err() != nil {
		return v, ctx.Err()
	}
	slices.SortFunc(v.Answers, func(a, b inspect.Answer) int { return cmp.Compare(a.Client, b.Client) }) // for the same cycles at every look
	for _, a := range v.Answers {
		delete(holding, a.Client)
	}
	for _, silent := range holding {
		v.Silent = append(v.Silent, silent)
	}
	slices.SortFunc(v.Silent, func(a, b Client) int { return cmp.Compare(a.ID, b.ID) })
	return v, nil
}

// clientLen is the length of the part of an owner's text that names the client, tenureLen
// that of the part before the colon, which names the tenure (docs/protocol.md).
const clientLen, tenureLen = 19, 36

// clientOf returns the id of the owner's client, "" if it is not a client of rlock.
func clientOf(owner string, guest bool) string {
	if guest || len(owner) < tenureLen {
		return ""
	}
	return owner[:clientLen]
}
