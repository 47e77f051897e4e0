package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A handle counts as dropped only if its hold lasts.
func TestAHoldIsDroppedAsLongAsItIsHeld(t *testing.T) {
	var hold HoldContext
	life := new(Life)
	hold.Begin(t.Context(), life)
	assert.False(t, life.IsDropped())
	life.Drop()
	assert.True(t, life.IsDropped())
	hold.End(errors.New("released"))
	assert.False(t, life.IsDropped())
}

// Owners are told apart by their numbers.
func TestWhoAnOwnerIs(t *testing.T) {
	for id, words := range map[uint64]string{
		firstOwner - 1: "goroutine 281474976710655", firstOwner: "owner 281474976710656",
		firstHandle - 1: "owner 4503599627370495", firstHandle: "a Hold",
	} {
		o := Owner{ID: id}
		assert.Equal(t, words, o.Words())
		assert.Equal(t, "a call with the context of "+words, Owner{ID: id, Guest: true}.Words())
		assert.Equal(t, strings.HasPrefix(words, "owner"), o.IsNamed(), words)
		text, err := json.Marshal(o) // as in a log: many readers of JSON take numbers for floats
		assert.NoError(t, err)
		assert.Equal(t, fmt.Sprintf("%q", fmt.Sprint(id)), string(text))
	}
}

func TestWhatIsToldOfAHold(t *testing.T) {
	var hold HoldContext
	parent, end := context.WithCancel(t.Context())
	hold.Begin(parent, nil)
	for _, asks := range []bool{true, false} {
		wanted, first := hold.AskedWanted()
		assert.Equal(t, asks, first)
		hold.TellWanted()
		<-wanted
	}
	merged := hold.Merge(context.Background())
	end()
	<-merged.Done() // without End, too

	var whole Whole
	for _, held := range []bool{true, false} {
		whole.SetHeld(held)
		assert.Equal(t, held, whole.IsHeld())
		assert.Equal(t, held, whole.TellsLong(), "once")
	}
	assert.True(t, State{Silent: Silence}.IsSilent())
	assert.False(t, State{Silent: Silence - 1}.IsSilent())
	told := 0
	Hook(func(context.Context, Event) { told++ }).Tell(t.Context(), Event{})
	Hook(nil).Tell(t.Context(), Event{})
	assert.Equal(t, 1, told)
}

type valueKey struct{}

// Contexts that are merged from one context, or from contexts that end together, have their own
// values, and end with the hold and with that context, each with its cause.
func TestAMergedContextEndsWithBoth(t *testing.T) {
	lost, left := errors.New("lost"), errors.New("left")
	for name, end := range map[string]struct {
		cause error
		by    func(hold *HoldContext, leave context.CancelCauseFunc)
	}{
		"the hold":    {lost, func(hold *HoldContext, _ context.CancelCauseFunc) { hold.End(lost) }},
		"the context": {left, func(_ *HoldContext, leave context.CancelCauseFunc) { leave(left) }},
	} {
		var hold HoldContext
		hold.Begin(t.Context(), nil)
		parent, leave := context.WithCancelCause(t.Context())
		for i := range 3 {
			ctx := hold.Merge(context.WithValue(parent, valueKey{}, i))
			assert.Equal(t, i, ctx.Value(valueKey{}))
			assert.NoError(t, ctx.Err())
			child, cancel := context.WithTimeout(context.WithValue(ctx, valueKey{}, "child"), time.Hour)
			defer cancel()
			defer func() { // at once, and not by another goroutine
				for _, ctx := range []context.Context{ctx, child} {
					assert.ErrorIs(t, ctx.Err(), context.Canceled, name)
					assert.Equal(t, end.cause, context.Cause(ctx), name)
					assert.NotPanics(t, func() { <-ctx.Done() })
				}
				assert.Equal(t, end.cause, context.Cause(hold.Merge(parent)), name)
			}()
		}
		end.by(&hold, leave)
	}
}

// Many goroutines merge one context when the hold ends: all of theirs have ended when End returns.
func TestAHoldThatEndsEndsWhatIsMerged(t *testing.T) {
	for range 100 {
		var hold HoldContext
		hold.Begin(t.Context(), nil)
		var all sync.WaitGroup
		merged := make(chan context.Context, 8)
		for range cap(merged) {
			all.Go(func() { merged <- hold.Merge(t.Context()) })
		}
		hold.End(errors.New("lost"))
		all.Wait()
		for range cap(merged) {
			assert.Error(t, (<-merged).Err())
		}
	}
}

// A program may merge contexts all the time while it holds a lock for weeks.
func TestMergedContextsTakeNoMemory(t *testing.T) {
	var hold HoldContext
	hold.Begin(t.Context(), nil)
	defer hold.End(errors.New("released"))
	lasting, stop := context.WithCancel(context.Background())
	defer stop()
	for name, merge := range map[string]func(){
		"of the background": func() { hold.Merge(context.Background()) },
		"of one that lasts": func() { hold.Merge(lasting) },
		"with values":       func() { hold.Merge(context.WithValue(lasting, valueKey{}, 1)) },
		"with a child":      func() { _, cancel := context.WithTimeout(hold.Merge(lasting), time.Hour); cancel() },
		"of one that soon ends": func() {
			ctx, cancel := context.WithCancel(lasting)
			hold.Merge(ctx)
			cancel()
		},
	} {
		const n = 10_000
		before := heap()
		for range n {
			merge()
		}
		assert.Less(t, (heap()-before)/n, int64(20), "%s: 861 if it is kept", name)
	}
	assert.LessOrEqual(t, len(hold.merged), 10)
}

// Contexts of many requests at once are dropped as later ones come.
func TestMergedContextsOfManyRequestsAreDropped(t *testing.T) {
	var hold HoldContext
	hold.Begin(t.Context(), nil)
	lasting := hold.Merge(t.Context())
	requests, end := context.WithCancel(t.Context())
	for range 1000 {
		ctx, cancel := context.WithCancel(requests)
		defer cancel()
		hold.Merge(ctx)
	}
	assert.Len(t, hold.merged, 1001)
	end()
	for range 1000 {
		ctx, cancel := context.WithCancel(t.Context())
		hold.Merge(ctx)
		cancel()
	}
	assert.LessOrEqual(t, len(hold.merged), 20)
	assert.LessOrEqual(t, hold.most, 64, "the map is as small as it was")
	hold.End(errors.New("released"))
	assert.Error(t, lasting.Err(), "it was not dropped")
	assert.Empty(t, hold.merged)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // also what a goroutine has just dropped
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
