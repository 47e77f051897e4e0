package engine

import (
	"slices"
	"sync"
)

// taken has the holds of compound locks that were taken without a handle, by owner: the
// innermost last.
type taken struct {
	mu    sync.Mutex // protects following
	holds map[LossKey][]Handle
}

// Push remembers the hold.
func (t *taken) Push(key LossKey, h Handle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holds == nil {
		t.holds = make(map[LossKey][]Handle)
	}
	t.holds[key] = append(t.holds[key], h)
}

// Pop returns the innermost hold, nil if there is none.
func (t *taken) Pop(key LossKey) Handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	holds := t.holds[key]
	if len(holds) == 0 {
		return nil
	}
	h := holds[len(holds)-1]
	t.keepLocked(key, slices.Delete(holds, len(holds)-1, len(holds)))
	return h
}

// Forget drops a hold that was lost: the losses remember it.
func (t *taken) Forget(key LossKey, h Handle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keepLocked(key, slices.DeleteFunc(t.holds[key], func(held Handle) bool { return held == h }))
}

func (t *taken) keepLocked(key LossKey, holds []Handle) {
	if len(holds) == 0 {
		delete(t.holds, key)
		return
	}
	t.holds[key] = holds
}
