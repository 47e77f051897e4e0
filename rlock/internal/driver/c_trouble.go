package driver

import (
	"sync"
	"sync/atomic"
)

// troubles has, for each lock, the listeners that hear why calls fail while they go on trying.
type troubles struct {
	count atomic.Int32 // number of listeners; read without the mutex, since most clients have none

	mu sync.Mutex // protects following
	of map[string]map[*func(error)]struct{}
}

// WatchTrouble calls told with the error of each failed attempt of a call for the lock with that key that goes on trying, until
// stop is called. told is called with a mutex of a lock held: it must return at once, and call no lock.
func (c *Client) WatchTrouble(key string, told func(err error)) (stop func()) {
	t, id := &c.troubles, &told
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[key] == nil {
		if t.of == nil {
			t.of = make(map[string]map[*func(error)]struct{})
		}
		t.of[key] = make(map[*func(error)]struct{}, 1)
	}
	t.of[key][id] = struct{}{}
	t.count.Add(1)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if _, ok := t.of[key][id]; !ok {
			return
		}
		t.count.Add(-1)
		if delete(t.of[key], id); len(t.of[key]) == 0 {
			delete(t.of, key)
		}
	}
}

func (t *troubles) tell(key string, err error) {
	if t.count.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for told := range t.of[key] {
		(*told)(err)
	}
}
