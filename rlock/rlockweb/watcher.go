package rlockweb

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/redisson"
)

const (
	interval  = time.Second // the time from one look to the next
	patience  = 2 * time.Second
	remembers = time.Minute // the time for which records are kept while nobody looks
	stays     = 10 * time.Second
	fill      = 400     // the number of new names that are looked at at once
	more      = 100     // the number of other locks that are looked at beside those that are shown
	mostNames = 100_000 // the number of names that are kept, of locks and of what turned out to be none
)

// A watcher looks at the locks once a second for all viewers together, while there are some.
type watcher struct {
	client *rlock.Client
	watch  *inspect.Watch

	mu      sync.Mutex // guards the fields below
	viewers map[*viewer]bool
	running bool
	began   time.Time // the time at which the records begin
	at      time.Time // the time of the last look that succeeded
	failed  error     // the error of the last look, or nil
	failing time.Time // the time since which looks fail; zero if the last one has succeeded
	records map[string]*record
	fresh   map[string]bool // names that may be locks
	others  map[string]bool // names of other data

	java     []redisson.State
	javaAt   time.Time
	javaFail error
}

// A viewer is one who looks.
type viewer struct {
	*query
	news    chan struct{} // has a value after each look
	visible []string      // the names of the locks that are shown
}

func newWatcher(client *rlock.Client) *watcher {
	return &watcher{client: client, watch: inspect.Of(client).Watch(), viewers: make(map[*viewer]bool)}
}

// add adds a viewer. The first one starts the looks.
func (w *watcher) add(q *query) *viewer {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := &viewer{query: q, news: make(chan struct{}, 1)}
	w.viewers[v] = true
	if !w.running {
		w.running = true
		if now := time.Now(); w.records == nil || now.Sub(w.at) > remembers {
			w.records, w.fresh, w.others = make(map[string]*record), make(map[string]bool), make(map[string]bool)
			w.began, w.failed, w.failing = now, nil, time.Time{}
		}
		go w.run()
	}
	return v
}

func (w *watcher) remove(v *viewer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.viewers, v)
}

// run looks until nobody is left.
func (w *watcher) run() {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for w.goesOn() {
		w.look()
		<-ticker.C
	}
}

func (w *watcher) goesOn() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = len(w.viewers) > 0
	return w.running
}

// look looks once, and tells all viewers.
func (w *watcher) look() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	names, failed := w.watch.Names(ctx)
	asked := w.choose(names)
	if failed == nil && w.asksForJava() {
		w.lookForJava(ctx)
	}
	locks, errs := w.watch.Locks(ctx, asked)
	w.mu.Lock()
	defer w.mu.Unlock()
	now, opened := time.Now(), w.opened()
	for at, name := range asked {
		delete(w.fresh, name)
		switch err := errs[at]; {
		case errors.Is(err, rlock.ErrWrongType), errors.Is(err, rlock.ErrInvalidName), isOfOthers(err):
			delete(w.records, name)
			w.others[name] = true
		case err != nil:
			failed = cmp.Or(failed, err)
		case w.records[name] != nil || locks[at].HolderCount+locks[at].Waiting > 0 || opened[name]:
			w.recordOf(name).see(now, locks[at])
		}
	}
	switch {
	case failed == nil:
		w.failing, w.at = time.Time{}, now
		w.forget(now, opened)
	case w.failing.IsZero():
		w.failing = now
	}
	w.failed = failed
	for v := range w.viewers {
		select {
		case v.news <- struct{}{}:
		default:
		}
	}
}

// isOfOthers reports whether the user may not read one key, and not whether a command is refused.
func isOfOthers(err error) bool {
	return errors.Is(err, rlock.ErrNoPermission) && !strings.Contains(err.Error(), "command")
}

// choose returns the names of the locks to look at: those that are shown, those that are new, and
// those with the oldest looks.
func (w *watcher) choose(found []string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range found {
		if w.records[name] == nil && !w.others[name] && len(w.fresh)+len(w.records) < mostNames {
			w.fresh[name] = true
		}
	}
	if len(w.others) > mostNames {
		clear(w.others) // they may be locks by now
	}
	chosen := make(map[string]bool)
	for v := range w.viewers {
		for _, name := range v.visible {
			chosen[name] = true
		}
		if v.Lock != "" {
			chosen[v.Lock] = true
		}
	}
	most := len(chosen) + more
	for name := range w.fresh {
		if len(chosen) < most-more+fill {
			chosen[name] = true
		}
	}
	if len(chosen) < most {
		rest := slices.Collect(maps.Values(w.records))
		slices.SortFunc(rest, func(a, b *record) int { return a.at.Compare(b.at) })
		for _, r := range rest {
			if len(chosen) < most {
				chosen[r.Name] = true
			}
		}
	}
	return slices.Collect(maps.Keys(chosen))
}

// recordOf returns the record of a lock. It needs the mutex.
func (w *watcher) recordOf(name string) *record {
	r := w.records[name]
	if r == nil {
		r = &record{Lock: inspect.Lock{Name: name}, forced: make(map[string]string)}
		w.records[name] = r
		if !w.at.IsZero() && time.Since(w.began) > 2*interval && len(w.fresh) == 0 {
			r.see(w.at, r.Lock) // it was free at the last look
		}
	}
	return r
}

// forget drops the records of locks that are free, and that nobody has opened. It needs the mutex.
func (w *watcher) forget(now time.Time, opened map[string]bool) {
	maps.DeleteFunc(w.records, func(name string, r *record) bool {
		return !r.free.IsZero() && now.Sub(r.free) > stays && !opened[name]
	})
}

// opened returns the names of the locks whose pages are open. It needs the mutex.
func (w *watcher) opened() map[string]bool {
	names := make(map[string]bool)
	for v := range w.viewers {
		names[v.Lock] = v.Lock != ""
	}
	return names
}

// nameOf returns the name with that id, or "".
func (w *watcher) nameOf(id string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.records {
		if len(name) > longestID && idOf(name) == id {
			return name
		}
	}
	return ""
}

// forced notes who takes a lock away from these holders.
func (w *watcher) forced(lock inspect.Lock, who string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.records[lock.Name]; r != nil {
		for _, h := range lock.Holders {
			r.forced[h.Owner] = who
		}
	}
}

// asksForJava reports whether Redisson's synchronizers are to be read: for those who look at them,
// every five seconds.
func (w *watcher) asksForJava() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for v := range w.viewers {
		if v.Java {
			return time.Since(w.javaAt) > 5*interval
		}
	}
	return false
}

// lookForJava reads Redisson's semaphores and latches.
func (w *watcher) lookForJava(ctx context.Context) {
	c := redisson.New(w.client)
	names, err := c.Names(ctx, "")
	var all []redisson.State
	for _, name := range names[:min(len(names), more)] {
		state, failed := c.Inspect(ctx, name)
		if failed == nil && state.Kind != "" {
			all = append(all, state)
		} else if !errors.Is(failed, rlock.ErrWrongType) {
			err = cmp.Or(err, failed)
		}
	}
	slices.SortFunc(all, func(a, b redisson.State) int { return strings.Compare(a.Name, b.Name) })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.java, w.javaFail, w.javaAt = all, err, time.Now()
}
