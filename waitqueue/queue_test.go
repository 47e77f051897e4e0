package waitqueue_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/waitqueue"
)

func join(q *waitqueue.Queue[int], values ...int) []*waitqueue.Waiter[int] {
	ws := make([]*waitqueue.Waiter[int], len(values))
	for i, v := range values {
		ws[i] = waitqueue.NewWaiter[int]()
		ws[i].Value = v
		q.Join(ws[i])
	}
	return ws
}

func pass(q *waitqueue.Queue[int]) []int {
	var order []int
	for w := q.Pass(); w != nil; w = q.Pass() {
		order = append(order, w.Value)
	}
	return order
}

func marked(w *waitqueue.Waiter[int]) bool {
	select {
	case <-w.C():
		return true
	default:
		return false
	}
}

func TestWaitersAreChosenInTheOrderTheyJoined(t *testing.T) {
	var q waitqueue.Queue[int]
	join(&q, 1, 2, 3)
	assert.Equal(t, 3, q.Len())
	assert.Equal(t, 1, q.Head().Value)
	assert.Equal(t, []int{1, 2, 3}, pass(&q))
	assert.Zero(t, q.Len())
	assert.Nil(t, q.Head())
}

func TestPassWakesOnlyTheChosen(t *testing.T) {
	var q waitqueue.Queue[int]
	ws := join(&q, 1, 2)
	require.Same(t, ws[0], q.Pass())
	assert.True(t, marked(ws[0]))
	assert.False(t, marked(ws[1]))
}

func TestPassOnAnEmptyQueueReturnsNil(t *testing.T) {
	var q waitqueue.Queue[int]
	assert.Nil(t, q.Pass())
}

func TestAWaiterMayLeaveFromAnyPlace(t *testing.T) {
	for name, c := range map[string]struct {
		leaves int
		want   []int
	}{
		"the head":   {0, []int{2, 3}},
		"the middle": {1, []int{1, 3}},
		"the tail":   {2, []int{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			var q waitqueue.Queue[int]
			ws := join(&q, 1, 2, 3)
			require.True(t, q.Leave(ws[c.leaves]))
			assert.Equal(t, 2, q.Len())
			assert.Equal(t, c.want, pass(&q))
		})
	}
}

func TestAWaiterThatWasChosenBeforeItLeavesIsTold(t *testing.T) {
	var q waitqueue.Queue[int]
	ws := join(&q, 1, 2)
	q.Pass()
	require.False(t, q.Leave(ws[0]), "it was chosen, so it must pass the choice on")
	assert.Same(t, ws[1], q.Pass(), "passing it on chooses the next waiter")
}

func TestLeavingAnotherQueueChangesNothing(t *testing.T) {
	var q, other waitqueue.Queue[int]
	ws := join(&other, 1)
	join(&q, 2)
	assert.False(t, q.Leave(ws[0]))
	assert.Equal(t, 1, q.Len())
	assert.Equal(t, 1, other.Len())
}

func TestAWaiterStandsInOneQueueAtMost(t *testing.T) {
	var q, other waitqueue.Queue[int]
	ws := join(&q, 1)
	assert.Panics(t, func() { q.Join(ws[0]) })
	assert.Panics(t, func() { other.Join(ws[0]) })
}

func TestWakesThatWereNotTakenAreOne(t *testing.T) {
	w := waitqueue.NewWaiter[int]()
	w.Wake()
	w.Wake()
	assert.True(t, marked(w))
	assert.False(t, marked(w))
}

func TestADrainedWaiterMayWaitAgain(t *testing.T) {
	var q waitqueue.Queue[int]
	w := join(&q, 1)[0]
	q.Pass()
	w.Drain()
	w.Drain() // there may be no mark to take
	q.Join(w)
	assert.False(t, marked(w), "the mark of the former place is gone")
	require.Same(t, w, q.Pass())
	assert.True(t, marked(w))
}

// TestTheQueueAgreesWithASlice plays random joins, leaves and passes on a queue
// and on a slice, which is the specification.
func TestTheQueueAgreesWithASlice(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var q waitqueue.Queue[int]
	var model []*waitqueue.Waiter[int]
	for i := range 20_000 {
		switch op := rnd.IntN(5); {
		case op < 2:
			model = append(model, join(&q, i)...)
		case op < 4 && len(model) > 0:
			at := rnd.IntN(len(model))
			require.True(t, q.Leave(model[at]))
			model = append(model[:at:at], model[at+1:]...)
		default:
			var want *waitqueue.Waiter[int]
			if len(model) > 0 {
				want, model = model[0], model[1:]
			}
			require.Same(t, want, q.Pass())
		}
		require.Equal(t, len(model), q.Len())
	}
}

// baton is a minimal resource to wait for, as in the Example. It shows that cancelled waiters
// lose no wake.
type baton struct {
	mu    sync.Mutex
	held  bool
	queue waitqueue.Queue[int]
}

func (b *baton) take(ctx context.Context) error {
	b.mu.Lock()
	if !b.held {
		b.held = true
		b.mu.Unlock()
		return nil
	}
	w := waitqueue.NewWaiter[int]()
	b.queue.Join(w)
	b.mu.Unlock()

	select {
	case <-w.C():
		return nil
	case <-ctx.Done():
		b.mu.Lock()
		if !b.queue.Leave(w) {
			b.passLocked()
		}
		b.mu.Unlock()
		return ctx.Err()
	}
}

func (b *baton) give() {
	b.mu.Lock()
	b.passLocked()
	b.mu.Unlock()
}

func (b *baton) passLocked() { b.held = b.queue.Pass() != nil }

func TestAWaiterThatIsCancelledWhileItIsChosenPassesItOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &baton{held: true}
		ctx, cancel := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- b.take(ctx) }()
		synctest.Wait()
		go func() { second <- b.take(t.Context()) }()
		synctest.Wait()

		// Both at once, under the mutex: the first waiter finds the mark and the end of its
		// context together, and may take either branch.
		b.mu.Lock()
		cancel()
		b.passLocked()
		b.mu.Unlock()

		if err := <-first; err == nil {
			b.give()
		}
		assert.NoError(t, <-second)
		assert.Zero(t, b.queue.Len())
	})
}

func TestNoWakeIsLostUnderRandomCancellation(t *testing.T) {
	var b baton
	var wg sync.WaitGroup
	count := 0
	for g := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(3, uint64(g)))
			for range 2_000 {
				ctx, cancel := context.WithCancel(context.Background())
				if rnd.IntN(3) == 0 {
					go cancel()
				}
				if b.take(ctx) == nil {
					count++ // the race detector checks that the baton excludes
					b.give()
				}
				cancel()
			}
		})
	}
	wg.Wait()
	assert.False(t, b.held)
	assert.Zero(t, b.queue.Len())
	assert.Positive(t, count)
}

func TestAllCallsWithEachWaiterInOrder(t *testing.T) {
	var q waitqueue.Queue[int]
	join(&q, 1, 2, 3)
	var order []int
	for w := range q.All {
		order = append(order, w.Value)
	}
	assert.Equal(t, []int{1, 2, 3}, order)
	assert.Equal(t, 3, q.Len())
}

func TestAllStopsWhenItsCallerDoes(t *testing.T) {
	var q waitqueue.Queue[int]
	join(&q, 1, 2, 3)
	var order []int
	for w := range q.All {
		order = append(order, w.Value)
		if w.Value == 2 {
			break
		}
	}
	assert.Equal(t, []int{1, 2}, order)
}

func TestAWaiterThatAllIsAtMayLeave(t *testing.T) {
	var q waitqueue.Queue[int]
	join(&q, 1, 2, 3)
	var order []int
	for w := range q.All {
		order = append(order, w.Value)
		require.True(t, q.Leave(w))
	}
	assert.Equal(t, []int{1, 2, 3}, order)
	assert.Zero(t, q.Len())
}
