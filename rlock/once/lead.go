package once

import (
	"context"
	_ "embed"
	"errors"
	"runtime/debug"
	"slices"
	"strconv"

	"github.com/go-rlock/rlock/rlock"
)

//go:embed store.lua
var storeSource string

// lead runs the function of a caller under the lock, and releases that. Its results are those of round.
func (f *flight) lead(hold *rlock.Hold) (over, again bool) {
	g := f.g
	c := f.next()
	if c == nil {
		_ = hold.Release(f.ctx)
		f.failAll(ErrVoid)
		return true, false
	}
	value, err := f.run(hold, c)
	if g.ctx.Err() != nil {
		_ = hold.Release(f.ctx)
		return true, false // closed
	}
	kind, keep := kindValue, g.o.Keep
	switch all := (*forAll)(nil); {
	case errors.As(err, &all):
		kind, keep, value = kindError, g.o.KeepErrors, []byte(all.error.Error())
	case err != nil:
		_ = hold.Release(f.ctx) // without an answer the client goes on with it
		g.mu.Lock()
		defer g.mu.Unlock()
		f.hand(c, result{nil, Ran, err})
		return f.over, g.keeps()
	}
	fit := f.waiting() // they asked before the function returned
	give := func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, o := range fit {
			r := (&stored{kind: kind, value: string(value)}).result(Process)
			if o == c {
				r = result{value, Ran, err}
			}
			f.hand(o, r)
		}
		return f.over
	}
	if len(value) > g.o.Most {
		_ = hold.Release(f.ctx)
		return give(), g.keeps()
	}
	_, failed := hold.ReleaseWith(f.ctx, storeSource, []string{f.at}, []string{
		strconv.FormatInt(keep.Microseconds(), 10), strconv.FormatInt(max(keep, grace).Milliseconds(), 10),
		g.id + "." + strconv.FormatUint(g.runs.Add(1), 10), kind, string(value), strconv.Itoa(g.o.Inline),
	})
	switch {
	case errors.Is(failed, rlock.ErrFenced): // nothing was stored, and another process may have run since
		return f.ctx.Err() != nil, true
	case errors.Is(failed, rlock.ErrUnconfirmed): // it may be stored: the next look shows that
		return f.ctx.Err() != nil, true
	}
	return give(), g.keeps() // also if Redis has refused the value: then this process alone has it
}

// next returns the first caller whose function has not run, nil for none.
func (f *flight) next() *caller {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	for _, c := range f.callers {
		if !c.ran {
			c.ran = true
			return c
		}
	}
	return nil
}

func (f *flight) waiting() []*caller {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	return slices.Clone(f.callers)
}

// run calls the function of a caller.
func (f *flight) run(hold *rlock.Hold, c *caller) ([]byte, error) {
	ctx, cancel := context.WithCancel(context.WithValue(context.WithoutCancel(c.ctx), nested{f.key}, hold))
	defer cancel()
	until := f.ctx
	if f.g.o.Finish {
		until = f.g.ctx
	}
	defer context.AfterFunc(until, cancel)()
	return called(hold.With(context.WithValue(ctx, holdKey{}, hold)), c.fn)
}

// called calls the function, in a goroutine of its own: so runtime.Goexit ends that alone.
func called(ctx context.Context, fn func(context.Context) ([]byte, error)) (value []byte, err error) {
	done := make(chan struct{})
	go func() {
		returned := false
		defer close(done)
		defer func() {
			if !returned {
				value, err = nil, &PanicError{recover(), debug.Stack()}
			}
		}()
		value, err = fn(ctx)
		returned = true
	}()
	<-done
	return value, err
}
