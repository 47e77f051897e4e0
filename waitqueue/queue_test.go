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

// order returns the values in line, by All and by those that are chosen one after another.
func order(t *testing.T, q *waitqueue.Queue[int]) []int {
	t.Helper()
	all, chosen := []int{}, []int{}
	for w := range q.All {
		assert.True(t, w.InLine())
		all = append(all, w.Value)
	}
	assert.Len(t, all, q.Len())
	for w := q.Head(); w != nil; w = q.Head() {
		chosen = append(chosen, w.Value)
		require.True(t, q.Leave(w))
		assert.False(t, w.InLine())
	}
	assert.Equal(t, all, chosen)
	assert.Zero(t, q.Len())
	return all
}

func TestWaitersAreChosenInTheOrderTheyJoined(t *testing.T) {
	var q waitqueue.Queue[int]
	assert.Nil(t, q.Head())
	join(&q, 1, 2, 3)
	assert.Equal(t, 3, q.Len())
	assert.Equal(t, []int{1, 2, 3}, order(t, &q))
	assert.Nil(t, q.Head())
}

func TestAWaiterMayLeaveFromAnyPlace(t *testing.T) {
	for name, c := range map[string]struct {
		leaves int
		want   []int
	}{
		"the head":   {0, []int{2, 3, 4}},
		"the middle": {1, []int{1, 3, 4}},
		"the tail":   {2, []int{1, 2, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			var q waitqueue.Queue[int]
			ws := join(&q, 1, 2, 3)
			require.True(t, q.Leave(ws[c.leaves]))
			assert.Equal(t, 2, q.Len())
			join(&q, 4)
			assert.Equal(t, c.want, order(t, &q))
		})
	}
}

func TestAWaiterLeavesOnce(t *testing.T) {
	var q, other waitqueue.Queue[int]
	ws := join(&q, 1, 2)
	join(&other, 3)
	assert.False(t, other.Leave(ws[0]), "it stands in another queue")
	require.True(t, q.Leave(ws[0]))
	assert.False(t, q.Leave(ws[0]), "it was chosen, so that it must pass the choice on")
	other.Join(ws[0])
	assert.Equal(t, []int{2}, order(t, &q))
	assert.Equal(t, []int{3, 1}, order(t, &other))
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
	assert.Equal(t, []int{3, 4}, order(t, &q))
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
		}
	}
	var is []*waitqueue.Waiter[int]
	for w := range q.All {
		is = append(is, w)
	}
	require.Equal(t, model, is)
}
