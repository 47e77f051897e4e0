package rlock

import (
	"context"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// An Answer lists the holds and the waits of a client: see [Client.Ask].
type Answer struct {
	Client string    // its [Client.ID]
	At     time.Time // when it was made, by the clock of its machine
	// Uses are the waits of its owners, and then their holds. Cut says that there were more.
	Uses []LockUse
	Cut  bool
}

// A LockUse is one owner that holds a lock, or waits for it.
type LockUse struct {
	Name      string
	Kind      Kind
	Owner     Owner     // of that client
	Goroutine uint64    // of the call; 0 if it is not known
	Waits     bool      // it waits for the lock; else it holds it
	Since     time.Time // by the clock of its machine
	PartOf    string    // the name of the lock over several that it is for, "" for none
	Place     Place     // where in the code, if the client's [Config.RecordPlaces] is set
}

// Ask asks other clients for the holds and the waits of their owners. Redis does not show all of
// them: a client has one place in the queue of a lock, however many of its goroutines wait. The
// ids are those of [Client.ID], which begin the text of each [Holder] and [Waiter]. Ask is for
// people and for tools: each client must look at all its locks.
//
// It returns the answers that have come when all have come, after a second, or when ctx ends;
// the end of ctx is no error then. A client does not answer that is gone, has never held a
// lock, is of an older version, or has [Config.NoAnswers] or [Config.NoClientChannel] set. An
// answer has up to 500 uses, in 64 KiB. Answers are not authenticated: any user that may
// publish to the channels of this package may have sent them.
//
// An error means that not all clients were asked: [ErrNoPermission] if the user may not
// subscribe or publish, [ErrClosed], [ErrInvalidConfig] for a string that is not an id, and
// the error of ctx or of the connection.
func (c *Client) Ask(ctx context.Context, ids ...string) ([]Answer, error) {
	for _, id := range ids {
		if len(id) != wire.ClientLen {
			return nil, fmt.Errorf("rlock: ask %q: %w: it is no id of a client", id, ErrInvalidConfig)
		}
	}
	heard, err := c.diag.Ask(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("rlock: ask clients: %w", err)
	}
	answers := make([]Answer, len(heard))
	for i, a := range heard {
		answers[i] = Answer{Client: a.Client, At: time.UnixMilli(a.At), Cut: a.Cut, Uses: make([]LockUse, len(a.Uses))}
		for j, u := range a.Uses {
			use := LockUse{
				Name: u.Lock, Kind: Kind(u.Kind), Owner: Owner{client.Owner{ID: u.Owner}}, Goroutine: u.Goroutine,
				Waits: u.Waits, Since: time.UnixMilli(u.Since), PartOf: u.PartOf,
			}
			if u.Place != nil {
				use.Place = Place(*u.Place)
			}
			answers[i].Uses[j] = use
		}
	}
	return answers, nil
}
