package sim

import (
	"container/heap"

	"github.com/go-rlock/rlock/internal/core"
)

// An eventKind is the kind of an event.
type eventKind uint8

const (
	arrives    eventKind = iota // a packet reaches its shard
	answered                    // ... and its answer the client
	heard                       // a message reaches its client
	subscribes                  // a SUBSCRIBE reaches its shard
	subscribed                  // ... and its answer the client
	unused                      // a subscription has lingered long enough
	due                         // a caller's timer
	keeps                       // a tenure's timer
	stalls                      // a client stalls
	lags                        // the first shard's replica lacks the commands executed from now on
	fails                       // ... it stops
	recovers                    // ... and the replica takes over
)

// An event happens at a time. Those of one time happen in the order in which they were planned.
type event struct {
	at   core.Time
	seq  uint64
	kind eventKind
	gen  uint32 // of a timer: one that was set again since then is of no use
	of   any    // a *packet, *news, *sub, *caller or *core.Tenure
}

// An agenda has the events to come. Those of the current slot of time are a heap, and the others wait in the lists of their
// slots: of a million events, most of which are pauses and looks, the heap has a few thousand.
type agenda struct {
	near  events
	slot  core.Time // of near
	later map[core.Time][]event
	next  slots // of later
	spare [][]event
	seq   uint64
}

// slot is as long as most round trips.
const slot = core.Time(1e6)

func newAgenda() agenda { return agenda{later: make(map[core.Time][]event)} }

// add adds an event.
func (a *agenda) add(e event) {
	a.seq++
	e.seq = a.seq
	n := e.at / slot
	if n <= a.slot {
		a.near = append(a.near, e)
		heap.Fix(&a.near, len(a.near)-1)
		return
	}
	list, ok := a.later[n]
	if !ok {
		heap.Push(&a.next, n)
		if n := len(a.spare); n > 0 {
			list, a.spare = a.spare[n-1], a.spare[:n-1]
		}
	}
	a.later[n] = append(list, e)
}

// take returns the next event, and false if there is none.
func (a *agenda) take() (e event, ok bool) {
	for len(a.near) == 0 {
		if len(a.next) == 0 {
			return e, false
		}
		a.slot = heap.Pop(&a.next).(core.Time)
		list := a.later[a.slot]
		delete(a.later, a.slot)
		a.near = append(a.near, list...)
		heap.Init(&a.near)
		clear(list)
		a.spare = append(a.spare, list[:0])
	}
	e = a.near[0]
	last := len(a.near) - 1
	a.near[0] = a.near[last]
	a.near[last] = event{}
	if a.near = a.near[:last]; last > 1 {
		heap.Fix(&a.near, 0)
	}
	return e, true
}

// events are a heap. Its Push and Pop are not used, since they would allocate.
type events []event

func (h events) Len() int { return len(h) }
func (h events) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h events) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h events) Push(any)      { panic("sim: an event is appended") }
func (h events) Pop() any      { panic("sim: an event is taken") }

// slots are a heap of the slots that have events.
type slots []core.Time

func (h slots) Len() int           { return len(h) }
func (h slots) Less(i, j int) bool { return h[i] < h[j] }
func (h slots) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *slots) Push(x any)        { *h = append(*h, x.(core.Time)) }
func (h *slots) Pop() any {
	last := len(*h) - 1
	n := (*h)[last]
	*h = (*h)[:last]
	return n
}

// plan has something happen at a time.
func (s *Sim) plan(at core.Time, kind eventKind, gen uint32, of any) {
	s.agenda.add(event{at: max(at, s.now), kind: kind, gen: gen, of: of})
}

// spares are used again, since a simulation of some minutes has a billion events.
type spares struct {
	packets []*packet
	news    []*news
	locks   []*lock
	clients []*core.Client
}

func take[T any](all *[]*T) *T {
	if n := len(*all); n > 0 {
		x := (*all)[n-1]
		*all = (*all)[:n-1]
		return x
	}
	return new(T)
}
