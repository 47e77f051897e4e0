package elect

import (
	"context"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// observeEvery is the time between two questions of [Candidate.Observe].
const observeEvery = 2 * time.Second

// Observe calls changed with the text of the leader soon after it is called, and then each time a
// term begins, of another process or of the same one. When ctx ends it returns nil. The process
// need not call Run. Observe asks Redis every two seconds, so it may miss shorter terms. It does
// not call changed between two terms, or for a leader whose text is empty. While Redis cannot be
// reached, or refuses to answer, Observe goes on asking, like [Candidate.Run]. It returns
// [rlock.ErrClosed] and [rlock.ErrInvalidName].
func (c *Candidate) Observe(ctx context.Context, changed func(leader string)) error {
	tick := time.NewTicker(observeEvery)
	defer tick.Stop()
	again := retry{name: c.lock.Name()}
	for last := ""; ; {
		i, err := inspect.Of(c.client).Lock(ctx, c.lock.Name())
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && len(i.Holders) > 0 && i.Holders[0].Note != "" && i.Holders[0].Owner != last:
			last = i.Holders[0].Owner
			changed(i.Holders[0].Note)
		case isFinal(err):
			return fmt.Errorf("elect: observe %q: %w", c.lock.Name(), err)
		case wire.IsPermanent(err):
			again.wait(ctx, err)
			continue
		case err == nil:
			again.reset()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
