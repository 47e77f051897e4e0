package driver

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A call that waits for a lock goes on while Redis refuses to serve it, or does not answer, since a
// failover may cure that. If it lasts, a line in the log says why.

const (
	troubleTime  = 5 * time.Second // the time after which it is logged
	troubleEvery = time.Minute     // the shortest interval between two such lines of a client
)

// TellTrouble tells the watchers of the lock that an attempt of a call failed with err. It logs
// that all attempts have failed since the given time, if that is long ago and was not logged a
// short time ago. It may be called with a mutex held.
func (c *Client) TellTrouble(lock string, since time.Time, err error) {
	c.troubles.tellWatchers(lock, err)
	now := time.Now()
	if now.Sub(since) < troubleTime {
		return
	}
	at, next := int64(now.Sub(c.clock.start)), c.troubleAt.Load()
	if at >= next && c.troubleAt.CompareAndSwap(next, at+int64(troubleEvery)) {
		c.Config.Logger.Warn("rlock: Redis does not serve the calls for a lock, which go on trying", "lock", lock,
			"for", now.Sub(since).Round(time.Millisecond), "error", err)
	}
}

// tellRedial logs that a connection was ended because of a reply: its server may be the wrong one
// by now. It logs this once in a while.
func (c *Client) tellRedial(reply error) {
	at := int64(time.Since(c.clock.start))
	if next := c.redialAt.Load(); at >= next && c.redialAt.CompareAndSwap(next, at+int64(troubleEvery)) {
		c.Config.Logger.Warn("rlock: Redis refuses commands, as a replica does or a server that is not ready: connecting again, since its address may lead to another server now",
			"error", reply)
	}
}

// mostRefusals is the largest number of different refusals of releases that a client logs.
const mostRefusals = 16

// tellRefused logs that Redis refused a release since its user lacks a right, once for each right:
// the lock stays until its lease ends, and a caller that ignores the error of Unlock would not
// know. It may be called with a mutex held.
func (c *Client) tellRefused(lock string, err error) {
	if err = wire.Explain(err); !errors.Is(err, wire.ErrNoPermission) {
		return
	}
	text := err.Error()
	c.refusals.Lock()
	defer c.refusals.Unlock()
	if slices.Contains(c.refusals.texts, text) || len(c.refusals.texts) >= mostRefusals {
		return
	}
	c.refusals.texts = append(c.refusals.texts, text)
	c.Config.Logger.Warn("rlock: Redis has refused a release, since its user lacks a right", "lock", lock, "error", err)
}

// troubles has the watchers of each lock, which hear why attempts fail while calls go on trying.
type troubles struct {
	count atomic.Int32 // the number of watchers, read without the mutex since most clients have none

	mu sync.Mutex // guards the fields below
	of map[string]map[*func(error)]struct{}
}

// WatchTrouble calls told with the error of each failed attempt for the lock with that key, until
// stop is called, once. told is called with a mutex held: it must return at once, and use no lock.
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
		t.count.Add(-1)
		if delete(t.of[key], id); len(t.of[key]) == 0 {
			delete(t.of, key)
		}
	}
}

func (t *troubles) tellWatchers(key string, err error) {
	if t.count.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for told := range t.of[key] {
		(*told)(err)
	}
}
