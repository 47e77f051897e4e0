//go:build invariants

package driver

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A witness notes what no shard can see by itself: which commands have no answer (rule 4), and which goroutine has the mutex of
// a shard (rule 7). It panics if a rule is broken. It is there with the build tag "invariants" only, which tests have
// (witness_off.go takes its place without), and only if CheckRules says so: all methods of a nil witness do nothing.
type witness struct {
	mu      sync.Mutex             // is taken last; protects following
	flights map[flight]*wire.Limit // without an answer: the limit in which the command has a slot, nil once it is carried
	slotted map[*wire.Limit]int64  // how many of them have a slot
	inside  map[uint64]mutexes     // the mutexes that a goroutine has
	shards  map[*shard]*asserted   // what each shard has noted
}

// mutexes are those that a goroutine has, in the order in which it has taken them.
type mutexes struct {
	names [2]string
	n     int
}

// A flight is a command of a tenure, which has one of each sort without an answer at most. The mirror that passes a lock on
// is of a sort of its own: it does not wait for the answer to a renewal.
type flight struct {
	tenure core.ID
	op     core.Op
	passes bool
}

func flightOf(cmd *core.Command) flight {
	return flight{cmd.ID, cmd.Op, cmd.Op == core.Mirror && cmd.Owner == 0}
}

// CheckRules makes clients that begin from now on assert the rules, or not, and returns what they did before.
func CheckRules(on bool) (was bool) {
	was, checks = checks, on
	return was
}

// checks is set by tests.
var checks bool

// newWitness returns the witness of a client that begins.
func newWitness(c *Client) *witness {
	if !checks {
		return nil
	}
	w := &witness{
		flights: make(map[flight]*wire.Limit), slotted: make(map[*wire.Limit]int64),
		inside: make(map[uint64]mutexes), shards: make(map[*shard]*asserted),
	}
	if c.Observer.On() {
		observer := *c.Observer.Observer
		for _, hook := range []*terms.Hook{&observer.Waiting, &observer.Acquired, &observer.GaveUp, &observer.Released, &observer.Lost} {
			if to := *hook; to != nil {
				*hook = func(ctx context.Context, e terms.Event) {
					w.outside("a hook of the Observer")
					to(ctx, e)
				}
			}
		}
		c.Observer.Observer = &observer
	}
	return w
}

// polled notes a command that is about to be sent. Its sender has entered the limit, nil for the keeper, whose batches
// have one of their own.
func (w *witness) polled(cmd *core.Command, slot *wire.Limit) {
	if w == nil || cmd.Op == core.None {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if slot != nil {
		if w.slotted[slot]++; slot.InFlight() < w.slotted[slot] {
			panic(fmt.Sprintf("rule 4: a command is polled without a slot: %v", flightOf(cmd)))
		}
	}
	for _, f := range flightsOf(cmd) {
		if _, ok := w.flights[f]; ok {
			panic(fmt.Sprintf("rule 4: a command is polled before the last one was answered: %v", f))
		}
		w.flights[f], slot = slot, nil
	}
}

// flightsOf returns those of a command, first its own.
func flightsOf(cmd *core.Command) []flight {
	if cmd.Joins.ID == (core.ID{}) {
		return []flight{flightOf(cmd)}
	}
	return []flight{flightOf(cmd), {tenure: cmd.Joins.ID, op: core.Join}}
}

// carried notes that a command needs no slot any more.
func (w *witness) carried(cmd *core.Command) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := flightOf(cmd); w.flights[f] != nil {
		w.slotted[w.flights[f]]--
		w.flights[f] = nil
	}
}

// landed notes the answer to a command, if it is one of a tenure.
func (w *witness) landed(cmd *core.Command) {
	if w != nil && cmd.Tenure() != nil {
		w.answered(cmd)
	}
}

func (w *witness) answered(cmd *core.Command) {
	w.carried(cmd)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range flightsOf(cmd) {
		if _, ok := w.flights[f]; !ok {
			panic(fmt.Sprintf("rule 4: a command has two answers: %v", f))
		}
		delete(w.flights, f)
	}
}

// flies reports whether the command of a tenure has no answer.
func (w *witness) flies(t *core.Tenure) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, flies := w.flights[flight{t.ID, t.InFlight(), false}]
	_, passes := w.flights[flight{t.ID, t.InFlight(), true}]
	return flies || passes
}

// unanswered returns how many commands have no answer.
func (w *witness) unanswered() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.flights)
}

// entersShard notes that the goroutine takes the mutex of a shard, which it does under no other.
func (w *witness) entersShard() {
	w.outside("a shard")
	w.enters("a shard")
}

// enters notes that the goroutine takes a mutex.
func (w *witness) enters(mutex string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	id := terms.GoroutineID()
	has := w.inside[id]
	has.names[has.n] = mutex
	has.n++
	w.inside[id] = has
}

// leaves notes that the goroutine gives back the mutex that it has taken last.
func (w *witness) leaves() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	id := terms.GoroutineID()
	if has := w.inside[id]; has.n > 1 {
		has.n--
		w.inside[id] = has
	} else {
		delete(w.inside, id)
	}
}

// outside panics if the goroutine has a mutex, since the next step is code of a user, or takes a mutex that comes before.
func (w *witness) outside(next string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if has := w.inside[terms.GoroutineID()]; has.n > 0 {
		panic(fmt.Sprintf("rule 7: %s under the mutex of %s", next, has.names[has.n-1]))
	}
}

// watched returns the context of a caller, whose methods assert that they are called outside.
func (w *witness) watched(ctx context.Context) context.Context {
	if w == nil {
		return ctx
	}
	return watchedContext{ctx, w}
}

// A watchedContext is a context of a user.
type watchedContext struct {
	context.Context
	witness *witness
}

func (c watchedContext) Err() error {
	c.witness.outside("Err of a context")
	return c.Context.Err()
}

func (c watchedContext) Done() <-chan struct{} {
	c.witness.outside("Done of a context")
	return c.Context.Done()
}

func (c watchedContext) Value(key any) any {
	c.witness.outside("Value of a context")
	return c.Context.Value(key)
}

// AfterFunc is what [context.AfterFunc] and a context that is made from this one call.
func (c watchedContext) AfterFunc(f func()) (stop func() bool) {
	c.witness.outside("AfterFunc of a context")
	stopped := context.AfterFunc(c.Context, f)
	return func() bool {
		c.witness.outside("the stop function of a context")
		return stopped()
	}
}
