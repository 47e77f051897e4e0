package rlock

import (
	"slices"
	"sync"
)

// taken has the holds of compound locks that were taken without a handle, by owner: the
// innermost last.
type taken struct {
	mu    sync.Mutex // protects following
	holds map[lossKey][]handle
}

func (t *taken) push(key lossKey, h handle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holds == nil {
		t.holds = make(map[lossKey][]handle)
	}
	t.holds[key] = append(t.holds[key], h)
}

// pop returns the innermost hold, nil if there is none.
func (t *taken) pop(key lossKey) handle {
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

// forget drops a hold that was lost: the losses remember it.
func (t *taken) forget(key lossKey, h handle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keepLocked(key, slices.DeleteFunc(t.holds[key], func(held handle) bool { return held == h }))
}

func (t *taken) keepLocked(key lossKey, holds []handle) {
	if len(holds) == 0 {
		delete(t.holds, key)
		return
	}
	t.holds[key] = holds
}
