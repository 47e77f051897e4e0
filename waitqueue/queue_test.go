package waitqueue_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/waitqueue"
)

func join(q *waitqueue.Queue[int], values ...int) []*waitqueue.Waiter[int] {
	ws := make([]*waitqueue.Waiter[int], len(values))
	for i, v := range values {
		ws[i] = &waitqueue.Waiter[int]{Value: v}
		q.Join(ws[i])
	}
	return ws
}

func TestAWaiterLeavesOnce(t *testing.T) {
	var q, other waitqueue.Queue[int]
	ws := join(&q, 1, 2)
	join(&other, 3)
	assert.False(t, other.Leave(ws[0]), "it stands in another queue")
	require.True(t, q.Leave(ws[0]))
	assert.False(t, q.Leave(ws[0]), "it was chosen, so that it must pass the choice on")
	assert.False(t, ws[0].InLine())
	other.Join(ws[0])
	assert.True(t, ws[0].InLine())
	assert.Equal(t, []int{1, 2}, []int{q.Len(), other.Len()})
}

func TestAWaiterStandsInOneQueueAtMost(t *testing.T) {
	var q, other waitqueue.Queue[int]
	ws := join(&q, 1)
	assert.Panics(t, func() { q.Join(ws[0]) })
	assert.Panics(t, func() { other.Join(ws[0]) })
}

// All stops when its caller does, and the waiter that it is at may leave.
func TestALoopOverTheWaiters(t *testing.T) {
	var q waitqueue.Queue[int]
	join(&q, 1, 2, 3, 4)
	for w := range q.All {
		if w.Value == 3 {
			break
		}
		require.True(t, q.Leave(w))
	}
	assert.Equal(t, 2, q.Len())
	assert.Equal(t, 3, q.Head().Value)
}

// TestTheQueueAgreesWithASlice plays random joins and leaves on a queue and on a slice, which is
// the specification.
func TestTheQueueAgreesWithASlice(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var q waitqueue.Queue[int]
	var model []*waitqueue.Waiter[int]
	for i := range 20_000 {
		if rnd.IntN(2) == 0 {
			model = append(model, join(&q, i)...)
		} else if len(model) > 0 {
			at := rnd.IntN(len(model))
			require.True(t, q.Leave(model[at]))
			model = append(model[:at:at], model[at+1:]...)
		}
		require.Equal(t, len(model), q.Len())
		if len(model) > 0 {
			require.Same(t, model[0], q.Head())
		} else {
			require.Nil(t, q.Head())
		}
	}
	var is []*waitqueue.Waiter[int]
	for w := range q.All {
		is = append(is, w)
	}
	require.Equal(t, model, is)
}
