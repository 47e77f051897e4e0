//go:build invariants

package driver

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// invariants says that the rules are asserted.
const invariants = true

// asserted is what a shard notes for the rules.
type asserted struct {
	left   core.Now // the time at which the mutex was last given back
	spared int      // exits until rules 1 and 6 are asserted again
}

// assertedOf returns what a shard has noted. The mutex of the shard guards it.
func (w *rules) assertedOf(s *shard) *asserted {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.shards[s]
	if a == nil {
		a = new(asserted)
		w.shards[s] = a
	}
	return a
}

func (w *rules) gives(s *shard) {
	if w == nil {
		return
	}
	w.assertedOf(s).left = s.client.clock.now()
	w.leaves()
}

// checkedAtOnce is the largest number of tenures and calls of a shard for which each exit asserts
// rules 1 and 6. In a larger shard only each n-th exit does, so that an exit does not cost more the
// more calls wait: a rule that is broken stays broken.
const checkedAtOnce = 64

// checkShard panics if a rule is broken, and returns of how many tenures and calls it was asserted.
// The witness asserts what no shard can see.
func (w *rules) checkShard(s *shard) (seen int) {
	w.checkMutex(s)
	for l := range s.all {
		seen += w.checkTenures(l) + l.checkCalls()
	}
	return seen
}

// checkMutex asserts rules 2 and 5.
func (w *rules) checkMutex(s *shard) {
	if left := w.assertedOf(s).left; s.at.Time < left.Time || s.at.Safe < left.Safe {
		panic(fmt.Sprintf("rule 5: the clocks were read at %v, and the mutex was taken after %v", s.at, left))
	}
	if left := len(s.core.Effects); left > 0 {
		panic(fmt.Sprintf("rule 2: %d effects are left", left))
	}
}

// checkTenures asserts rules 1 and 6 for tenures.
func (w *rules) checkTenures(l *lockState) (seen int) {
	for t := range l.Tenures {
		seen++
		k := l.checkKnown(t)
		if t.OpInFlight() != core.None && !w.flies(t) {
			panic(fmt.Sprintf("rule 4: a command is answered, and package core was not told: %v", l.describeTenure(t)))
		}
		l.checkAgent(t, k)
	}
	return seen
}

// checkKnown asserts that the driver knows a tenure as package core does, and returns what it
// knows.
func (l *lockState) checkKnown(t *core.Tenure) *work {
	k, _ := t.Tag.(*work)
	if k == nil && t.Agent != nil { // its call has sent nothing for it
		k = &work{tenureState: tenureState{lock: l, tenure: t}}
	}
	if k == nil || k.tenure != t && t.Agent == nil {
		panic(fmt.Sprintf("rule 1: %v is not known", l.describeTenure(t)))
	}
	return k
}

// checkAgent asserts that the agent of a tenure wakes in time.
func (l *lockState) checkAgent(t *core.Tenure, k *work) {
	op, at := l.Peek(t, l.shard.at)
	switch caller := t.Agent; {
	case t.OpInFlight() != core.None && op == core.None:
	case caller != nil:
		if w := caller.Tag.(*waiter); w.stage == asleep && w.Alarm() > at {
			panic(fmt.Sprintf("rule 1: the call of %v sleeps until %v", l.describeTenure(t), w.Alarm()))
		}
	default:
		if at = min(at, l.trackedFrom(k)); at != core.Never && k.state == scheduled && (k.alarm == 0 || k.alarm > max(at, l.shard.at.Time)) {
			panic(fmt.Sprintf("rule 6: %v has an alarm at %v", l.describeTenure(t), k.alarm))
		}
	}
}

// checkCalls asserts rule 6 for calls.
func (l *lockState) checkCalls() (seen int) {
	for one := range l.Waiters {
		seen++
		w := one.Tag.(*waiter)
		if at := l.Wakes(one, l.shard.at); (w.stage == asleep || w.stage == queueing) && w.Alarm() > max(at, l.shard.at.Time) {
			panic(fmt.Sprintf("rule 6: a call sleeps until %v and is due at %v", w.Alarm(), at))
		}
	}
	return seen
}

// describeTenure describes a tenure.
func (l *lockState) describeTenure(t *core.Tenure) string {
	op, at := l.Peek(t, l.shard.at)
	return fmt.Sprintf("the tenure %d (want %v, place %v, in flight %v, next %v at %v, now %v)", t.ID.N, t.Want(), t.Place(), t.OpInFlight(), op, at, l.shard.at.Time)
}

func (w *rules) returns(s *shard, n *Name, o core.OwnerID, earlier *earlierLosses) {
	if w == nil {
		return
	}
	s.underMutex(func() {
		l := s.lockOf(n.KindID, n.Key, o)
		for _, e := range s.unreported[l] {
			if e.number <= earlier.last {
				panic(fmt.Sprintf("rule 3: a call has the lock %q, and a loss that came before is not reported", n.Key))
			}
		}
	})
}

func (w *rules) fails(err error) {
	if w != nil && err == nil {
		panic("rule 8: a call returns without the lock, and has no error")
	}
}

// checks implements witness. A broken rule gives the mutex back, so that the test fails and does
// not hang.
func (w *rules) checks(s *shard) {
	if w == nil {
		return
	}
	kept := false
	defer func() {
		if !kept {
			s.unlock()
		}
	}()
	if a := w.assertedOf(s); a.spared > 1 {
		a.spared--
		w.checkMutex(s)
	} else {
		a.spared = w.checkShard(s) / checkedAtOnce
	}
	kept = true
}

// rules are the witness of a client, nil if CheckRules has said that it asserts nothing.
type rules struct {
	mu      sync.Mutex             // is taken last; guards the fields below
	flights map[flight]*wire.Limit // the commands without an answer, and the limit in which each has a slot; nil once it is carried
	slotted map[*wire.Limit]int64  // the number of these commands that have a slot, by limit
	inside  map[uint64]mutexes     // the mutexes that a goroutine has
	shards  map[*shard]*asserted   // what each shard has noted
}

// mutexes are the mutexes that a goroutine holds, in the order in which it took them.
type mutexes struct {
	names [2]string
	n     int
}

// A flight is a command without an answer. A tenure has at most one of each sort. The Mirror that
// passes a lock on is of a sort of its own: it does not wait for the answer to a renewal.
type flight struct {
	tenure core.ID
	op     core.Op
	passes bool
}

func flightOf(cmd *core.Command) flight {
	return flight{cmd.ID, cmd.Op, cmd.Op == core.Mirror && cmd.Owner == 0}
}

func init() { newWitness = newRules }

// newRules returns the witness of a client that begins.
func newRules(c *Client) witness {
	if !checks {
		return (*rules)(nil)
	}
	w := &rules{
		flights: make(map[flight]*wire.Limit), slotted: make(map[*wire.Limit]int64),
		inside: make(map[uint64]mutexes), shards: make(map[*shard]*asserted),
	}
	if c.Observer.On() {
		observer := *c.Observer.Observer
		for _, hook := range []*contract.Hook{&observer.Waiting, &observer.Acquired, &observer.Answered, &observer.GaveUp, &observer.Released, &observer.Lost} {
			if to := *hook; to != nil {
				*hook = func(ctx context.Context, e contract.Event) {
					w.outside("a hook of the Observer")
					to(ctx, e)
				}
			}
		}
		c.Observer.Observer = &observer
	}
	return w
}

func (w *rules) polled(cmd *core.Command, slot *wire.Limit) {
	if w == nil || cmd.Op == core.None {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if slot != nil {
		if w.slotted[slot]++; slot.Count() < w.slotted[slot] {
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

// flightsOf returns the flights of a command: its own first, then the flight of the ticket that
// joins by it.
func flightsOf(cmd *core.Command) []flight {
	if cmd.Joins.ID == (core.ID{}) {
		return []flight{flightOf(cmd)}
	}
	return []flight{flightOf(cmd), {tenure: cmd.Joins.ID, op: core.Join}}
}

func (w *rules) carried(cmd *core.Command) {
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

func (w *rules) noteAnswerArrived(cmd *core.Command) {
	if w == nil {
		return
	}
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
func (w *rules) flies(t *core.Tenure) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, flies := w.flights[flight{t.ID, t.OpInFlight(), false}]
	_, passes := w.flights[flight{t.ID, t.OpInFlight(), true}]
	return flies || passes
}

// countUnanswered returns how many commands have no answer.
func (w *rules) countUnanswered() int {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.flights)
}

// takes implements witness: a goroutine takes the mutex of a shard under no other.
func (w *rules) takes() {
	w.outside("a shard")
	w.enters("a shard")
}

func (w *rules) enters(mutex string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	id := contract.GoroutineID()
	has := w.inside[id]
	has.names[has.n] = mutex
	has.n++
	w.inside[id] = has
}

func (w *rules) leaves() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	id := contract.GoroutineID()
	if has := w.inside[id]; has.n > 1 {
		has.n--
		w.inside[id] = has
	} else {
		delete(w.inside, id)
	}
}

func (w *rules) outside(next string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if has := w.inside[contract.GoroutineID()]; has.n > 0 {
		panic(fmt.Sprintf("rule 7: %s under the mutex of %s", next, has.names[has.n-1]))
	}
}

func (w *rules) watchContext(ctx context.Context) context.Context {
	if w == nil {
		return ctx
	}
	return watchedContext{ctx, w}
}

// A watchedContext is a context of a user.
type watchedContext struct {
	context.Context
	witness *rules
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

// AfterFunc is called by [context.AfterFunc], and by a context that is made from this one.
func (c watchedContext) AfterFunc(f func()) (stop func() bool) {
	c.witness.outside("AfterFunc of a context")
	stopped := context.AfterFunc(c.Context, f)
	return func() bool {
		c.witness.outside("the stop function of a context")
		return stopped()
	}
}
