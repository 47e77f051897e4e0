package elect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// observeEvery is the time between two questions of [Candidate.Observe].
const observeEvery = 2 * time.Second

// Observe calls changed with the text of the leader: soon after it is called, and then each time
// another process leads, or the same one again, until ctx ends; then it returns nil. The process
// need not stand. It asks Redis every two seconds, so that it may miss shorter terms. Between two
// terms, and for a leader whose text is empty, changed is not called. While Redis cannot be reached
// Observe goes on asking. It returns an error that waiting cannot cure, such as [rlock.ErrClosed]
// or [rlock.ErrNoPermission].
func (c *Candidate) Observe(ctx context.Context, changed func(leader string)) error {
	tick := time.NewTicker(observeEvery)
	defer tick.Stop()
	for last := ""; ; {
		i, err := inspect.Of(c.client).Lock(ctx, c.lock.Name())
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && len(i.Holders) > 0 && i.Note != "" && i.Holders[0].Owner != last:
			last = i.Holders[0].Owner
			changed(i.Note)
		case errors.Is(err, rlock.ErrClosed), errors.Is(err, rlock.ErrNoPermission), errors.Is(err, rlock.ErrWrongType),
			errors.Is(err, rlock.ErrUnsupported), errors.Is(err, rlock.ErrInvalidName):
			return fmt.Errorf("elect: observe %q: %w", c.lock.Name(), err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
