package terms

import (
	"context"
	"sync"
)

// A HoldContext is the context of a hold, with those that are merged with it. It is in the struct of a hold; Begin
// comes before all else.
type HoldContext struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	life   *Life // of the hold; nil for a part, whose whole has one

	mu     sync.Mutex                        // protects following
	merged map[*context.CancelCauseFunc]bool // ends those contexts that Merge has made, and that have not ended
}

// Begin makes the context from parent. End ends the life, too, unless that is nil.
func (c *HoldContext) Begin(parent context.Context, life *Life) {
	c.life = life
	c.ctx, c.cancel = context.WithCancelCause(parent)
}

// Context returns the context that ends when the hold does.
func (c *HoldContext) Context() context.Context { return c.ctx }

// End ends the context and those merged with it; the second call changes nothing.
func (c *HoldContext) End(cause error) {
	c.life.end()
	c.cancel(cause)
	c.mu.Lock()
	merged := c.merged
	c.merged = nil
	c.mu.Unlock()
	for end := range merged {
		(*end)(cause)
	}
}

// Merge returns a context that is made from ctx, and ends also when that of the hold does: before End returns.
func (c *HoldContext) Merge(ctx context.Context) context.Context {
	merged, end := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		end(context.Cause(c.ctx))
		return merged
	}
	if c.merged == nil {
		c.merged = make(map[*context.CancelCauseFunc]bool)
	}
	c.merged[&end] = true
	// The context of the hold may end with its parent, and not by End.
	stop := context.AfterFunc(c.ctx, func() { end(context.Cause(c.ctx)) })
	context.AfterFunc(merged, func() {
		stop()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.merged, &end)
	})
	return merged
}
