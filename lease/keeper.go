package lease

import (
	"cmp"
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// A Keeper asks renewables when their time has come, and sends those that are due in batches, by
// group. However many renewables it has, it has one goroutine, and one more for each batch in
// flight. Make one with [NewKeeper]. All methods may be called concurrently, and all but Close also
// from Due and Send.
type Keeper struct {
	config Config
	clock  func() time.Time // returns the time with the monotonic and the wall clock; tests replace it
	epoch  time.Time        // the zero of all durations below

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // counts the goroutines
	wake   chan struct{}  // has a value when the goroutine must look again; has room for one
	timer  *time.Timer    // the goroutine's timer; no other goroutine uses it

	mu     sync.Mutex // guards the fields below, and the keeping of every entry
	closed bool
	wheel  *Wheel
	groups map[uint32]*group // all groups ever seen: there are few nodes

	// urgent and ready have the entries to ask in the next pass: urgent the entries whose time has
	// come, ready the others. paced has the entries that were nudged within the pace of their last
	// send, in the order of the nudges.
	urgent, ready, paced fifo

	// wakesAt is the time at which the goroutine wakes by itself. Schedule and Stop are cheap, because
	// a later time need not wake it.
	wakesAt time.Duration
	// wokenFor is the time for which the goroutine was woken since it last slept; awake if it was
	// not woken for a later time.
	wokenFor time.Duration

	// skew is the least lead of the wall clock over the monotonic one, both counted from epoch,
	// since all entries were last asked.
	skew time.Duration
}

// keeping is the keeper's note on an entry. The keeper's mutex guards it.
//
// A renewable that was nudged and not yet asked stands in a fifo, is being asked, or is in flight.
// The end of each of these states looks at nudged, so that no nudge is lost.
type keeping struct {
	owner Renewable // the renewable; nil after Stop

	in             *fifo // the fifo in which it stands, or nil
	before, behind *Entry

	rest   time.Duration // the time before which it must not be sent, by the pace
	asked  bool          // Due is being called; then the entry stands in no fifo
	flying bool          // the entry is in a batch, from when the batch is built until it has landed

	// nudged is set and cleared with the mutex held. Nudge also reads it without.
	nudged atomic.Bool
}

// NewKeeper returns a keeper with its goroutine running. It panics if config.Send is nil. Close it
// when it is no longer needed.
func NewKeeper(config Config) *Keeper {
	return newKeeper(config, time.Now)
}

func newKeeper(config Config, clock func() time.Time) *Keeper {
	config = config.withDefaults()
	epoch := clock()
	k := &Keeper{
		config: config,
		clock:  clock,
		epoch:  epoch,
		wake:   make(chan struct{}, 1),
		timer:  time.NewTimer(time.Hour),
		wheel:  NewWheel(epoch, config.Tick),
		groups: make(map[uint32]*group),
	}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.wakesAt, k.wokenFor = awake, awake
	k.wg.Go(k.run)
	return k
}

// Schedule makes the keeper ask r at the given time, in place of the time before. It neither
// hastens nor delays a nudge, or a send for which r waits. It does nothing after Close.
func (k *Keeper) Schedule(r Renewable, at time.Time) {
	e := r.Entry()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	e.keeping.owner = r
	k.wheel.Schedule(e, at)
	k.wakeByLocked(time.Duration(e.due) * k.config.Tick)
}

// Nudge makes the keeper ask r as soon as possible: when its last send is over, and began at least
// a pace ago. Nudges that come before r is asked are one, and cost a few nanoseconds each. Make the
// change before the nudge, under the mutex under which Due and Send look at r: then the next
// command shows the change.
//
// No send begins sooner than a pace after the last one of r. Due is called at most a pace after the
// nudge, or after the end of the flight if it ends later. If the node of r does not answer, r waits
// for it like all others.
//
// It does nothing after Close.
func (k *Keeper) Nudge(r Renewable) {
	e := r.Entry()
	// While nudged is set, Due has yet to be called: nudged is cleared before the call. So Due
	// takes r's mutex after the caller's change.
	if e.keeping.nudged.Load() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	e.keeping.owner = r
	e.keeping.nudged.Store(true)
	k.lineUpLocked(e)
}

// Stop forgets r: its time, its nudge, and its place in the queue of the next batch. It ignores an
// r that the keeper does not know, and does not wake the keeper.
//
// Stop waits for nothing: when it returns, Due may be running, and r may be in a batch that is
// being built or in flight. A mutex makes sure that nothing is renewed after Stop. The caller marks
// r as over under r's own mutex, and Send looks for the mark under the same mutex while it builds
// the command. So a command is built before the mark, and is in flight when Stop is called, or it
// is never built. Likewise Due and Send must not schedule or nudge a marked entry, since that makes
// r known again.
//
// Stop reports whether the keeper is done with r: after false Due or Send may still look at r, and
// r must not be used for something else.
func (k *Keeper) Stop(r Renewable) (done bool) {
	e := r.Entry()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wheel.Stop(e)
	e.keeping.leave()
	e.keeping.owner = nil
	e.keeping.nudged.Store(false)
	return !e.keeping.asked && !e.keeping.flying
}

// Len returns the number of scheduled renewables, without renewables that only wait to be sent.
func (k *Keeper) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.wheel.Len()
}

// Close ends the keeper: nothing is asked or sent any more, and the contexts of the batches in
// flight end. It returns when all goroutines have ended, so it must not be called from Due or Send,
// nor with a mutex held that they take. Later calls wait as well. Renewables are not notified.
func (k *Keeper) Close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.cancel()
	k.wg.Wait()
}

// lookout is the longest sleep of the keeper while anything is scheduled, so that a holder learns
// within this time that the machine slept. The timers of Go stand still with the monotonic clock:
// with a longer sleep the holder would learn only when the rest of it is over. The wakes cost some
// microseconds a second.
const lookout = time.Second

// sleepTolerance is the largest lead of the wall clock over the monotonic clock, since all entries
// were last asked, that is not taken for sleep. A holder may learn of a loss later by this time. If
// only the wall clock is slewed, by 500 ppm, all entries are asked every few minutes, in vain.
const sleepTolerance = 100 * time.Millisecond

// Values of Keeper.wakesAt that are not times.
const (
	awake = time.Duration(math.MinInt64) // the goroutine looks before it sleeps
	never = time.Duration(math.MaxInt64) // the goroutine has no reason to wake
)

// run is the goroutine of the keeper. It makes passes until there is nothing to do, and sleeps
// until there may be. A pass gathers the entries to ask, asks them, and sends the entries that are
// due:
//
//	wheel: due, or all after sleep --> urgent --+
//	paced: the pace is over ---------+          +--> Due --> open batch --> flight
//	queue of a group with room ------+--> ready +        `-> queue, without room
//
// Everything but the calls of Due and Group happens under the mutex. A wake during a pass is never
// lost, since the goroutine gathers once more before it sleeps.
func (k *Keeper) run() {
	defer k.timer.Stop()
	// Not unlocked by defer: when Due panics the mutex is not held, and unlocking it would hide the
	// panic.
	k.mu.Lock()
	for !k.closed {
		k.gatherLocked()
		n := k.urgent.len + k.ready.len
		if n == 0 {
			k.sleepLocked()
			continue
		}
		// An entry that becomes ready meanwhile waits for the next pass, so that it does not delay
		// batches that are not full.
		k.askLocked(n)
		for _, g := range k.groups {
			if len(g.open) > 0 {
				k.launchGroupLocked(g)
			}
		}
	}
	k.mu.Unlock()
}

// gatherLocked moves the entries that may be asked now to ready.
func (k *Keeper) gatherLocked() {
	now := k.clock()
	since := now.Sub(k.epoch)

	// While the machine slept the wall clock went on, but not the monotonic clock, by which the
	// wheel runs. So all entries are asked: their owners know whether their leases are over. Many
	// short sleeps add up.
	skew := k.skewAt(now)
	if skew < k.skew { // the process may have been interrupted between its reads of the wall clock and of the monotonic clock
		skew = max(skew, k.skewAt(k.clock()))
	}
	if skew-k.skew > sleepTolerance {
		k.skew = skew
		k.wheel.Flush(k.makeUrgentLocked)
	} else {
		k.skew = min(k.skew, skew)
		k.wheel.Advance(now, k.makeUrgentLocked)
	}
	// The fifo is in the order of the nudges, and not of the ends of the paces. So an entry may
	// wait, for less than a pace, behind another one whose pace ends later.
	for e := k.paced.head; e != nil && e.keeping.rest <= since; e = k.paced.head {
		k.makeReadyLocked(e)
	}
	for _, g := range k.groups {
		// As many as there is room for. Before a probe all of them are asked, although the node may
		// never answer again: an entry that has moved to another node goes there, and an entry that
		// is over goes away.
		room := g.roomLocked(k, since)
		if !g.down || room == 0 {
			room = min(room, g.queue.len)
		} else {
			room = g.queue.len
		}
		for range room {
			k.makeReadyLocked(g.queue.head)
		}
	}
}

// skewAt returns the lead of the wall clock over the monotonic one.
func (k *Keeper) skewAt(t time.Time) time.Duration {
	return t.Round(0).Sub(k.epoch.Round(0)) - t.Sub(k.epoch)
}

// makeReadyLocked moves e to ready, out of the fifo in which it stands, if any.
func (k *Keeper) makeReadyLocked(e *Entry) {
	e.keeping.leave()
	k.ready.push(e)
}

// makeUrgentLocked moves e, whose time has come, to urgent, before those that were nudged. The time
// may be the end of a lease: the holder learns of it when the keeper asks, and a pass takes long if
// each Due waits for a contended mutex.
func (k *Keeper) makeUrgentLocked(e *Entry) {
	e.keeping.leave()
	k.urgent.push(e)
}

// chunk is the number of entries that are asked before the keeper takes its mutex again: when a
// hundred thousand are due together, Schedule and Stop go on in between.
const chunk = 64

// askLocked asks the first n entries of urgent and of ready, or fewer if they have fewer, and puts
// due entries into the batches of their groups. It releases the mutex while it asks.
func (k *Keeper) askLocked(n int) {
	var asked [chunk]struct {
		owner Renewable
		group uint32
		send  bool
	}
	for n > 0 && k.urgent.len+k.ready.len > 0 && !k.closed {
		k.wheel.Advance(k.clock(), k.makeUrgentLocked)
		some := asked[:min(n, chunk, k.urgent.len+k.ready.len)]
		n -= len(some)
		for i := range some {
			e := cmp.Or(k.urgent.head, k.ready.head)
			e.keeping.leave()
			e.keeping.asked = true
			e.keeping.nudged.Store(false)
			some[i].owner = e.keeping.owner
		}

		k.mu.Unlock()
		// There is no recover, here or around Send. A panic is a bug in the called code, whose
		// mutex is in an unknown state. If it were hidden, a lock would be lost without a reason
		// that can be found.
		now := k.clock()
		for i := range some {
			a := &some[i]
			if a.send = a.owner.Due(now); a.send {
				a.group = a.owner.Group()
			}
		}
		k.mu.Lock()

		since := now.Sub(k.epoch)
		for i := range some {
			e := some[i].owner.Entry()
			e.keeping.asked = false
			switch {
			case e.keeping.owner == nil: // stopped meanwhile
			case some[i].send:
				k.dispatchLocked(e, some[i].group, since)
			case e.keeping.nudged.Load(): // perhaps nudged after Due answered
				k.lineUpLocked(e)
			}
		}
	}
}

// dispatchLocked puts an entry that is due, and stands in no fifo, into a batch, or makes it wait.
// Entries get into a batch in no other way. So here two sends of one renewable are kept from
// overlapping, and a pace apart.
func (k *Keeper) dispatchLocked(e *Entry, id uint32, since time.Duration) {
	if e.keeping.flying || since < e.keeping.rest {
		e.keeping.nudged.Store(true)
		k.lineUpLocked(e)
		return
	}
	g := k.groups[id]
	if g == nil {
		g = &group{id: id}
		k.groups[id] = g
	}
	if g.roomLocked(k, since) == 0 {
		g.queue.push(e)
		return
	}
	e.keeping.flying = true
	e.keeping.rest = since + k.config.Pace
	g.open = append(g.open, e.keeping.owner)
	if g.probe = g.down; len(g.open) == k.config.Batch {
		k.launchGroupLocked(g)
	}
}

// lineUpLocked puts a nudged entry into the fifo in which it waits to be asked, unless it stands in
// one, or is being asked, or is in flight.
func (k *Keeper) lineUpLocked(e *Entry) {
	if e.keeping.in != nil || e.keeping.asked || e.keeping.flying {
		return
	}
	if e.keeping.rest > k.clock().Sub(k.epoch) {
		k.paced.push(e)
		k.wakeByLocked(k.paced.head.keeping.rest)
		return
	}
	k.ready.push(e)
	k.wakeByLocked(awake)
}

// wakeByLocked makes sure that the goroutine is awake at the given time: it wakes a goroutine that
// would sleep longer, which then sets its timer anew.
func (k *Keeper) wakeByLocked(at time.Duration) {
	if at >= k.wakesAt {
		return
	}
	k.wakesAt, k.wokenFor = awake, at
	select {
	case k.wake <- struct{}{}:
	default: // the goroutine has not consumed an earlier wake-up
	}
}

// sleepLocked waits, without the mutex, until there may be something to do. With nothing scheduled
// there is no timer.
//
// The entry for which the goroutine was woken may be stopped by now. The goroutine still wakes once
// at the entry's time: otherwise each of many leases that are taken and given back would wake it.
func (k *Keeper) sleepLocked() {
	since := k.clock().Sub(k.epoch)
	k.wakesAt = never
	if k.wokenFor > since {
		k.wakesAt = min(k.wokenFor, since+lookout)
	}
	k.wokenFor = awake
	if at, ok := k.wheel.Next(); ok {
		k.wakesAt = min(k.wakesAt, at.Sub(k.epoch), since+lookout)
	}
	if e := k.paced.head; e != nil {
		k.wakesAt = min(k.wakesAt, e.keeping.rest)
	}
	for _, g := range k.groups {
		if g.down && !g.probing && g.queue.len > 0 { // else the end of a batch wakes the keeper
			k.wakesAt = min(k.wakesAt, g.probeAt)
		}
	}
	if k.wakesAt == never {
		k.timer.Stop()
	} else {
		k.timer.Reset(k.wakesAt - since)
	}
	k.mu.Unlock()
	select {
	case <-k.timer.C:
	case <-k.wake:
	case <-k.ctx.Done():
	}
	k.mu.Lock()
	k.wakesAt = awake
}

// A fifo is a first-in first-out list of entries, linked through their keeping, so that an entry
// joins and leaves without allocation, from any place. An entry stands in at most one fifo; it may
// be in the wheel as well, which has links of its own. The zero fifo is empty. The keeper's mutex
// guards every fifo.
type fifo struct {
	head, tail *Entry
	len        int
}

// push puts e, which stands in no fifo, at the end.
func (l *fifo) push(e *Entry) {
	k := &e.keeping
	k.in, k.before, k.behind = l, l.tail, nil
	if l.tail == nil {
		l.head = e
	} else {
		l.tail.keeping.behind = e
	}
	l.tail = e
	l.len++
}

// pushFront puts e, which stands in no fifo, at the front.
func (l *fifo) pushFront(e *Entry) {
	k := &e.keeping
	k.in, k.before, k.behind = l, nil, l.head
	if l.head == nil {
		l.tail = e
	} else {
		l.head.keeping.before = e
	}
	l.head = e
	l.len++
}

// leave takes the entry out of the fifo that it stands in, if any.
func (k *keeping) leave() {
	l := k.in
	if l == nil {
		return
	}
	if k.before == nil {
		l.head = k.behind
	} else {
		k.before.keeping.behind = k.behind
	}
	if k.behind == nil {
		l.tail = k.before
	} else {
		k.behind.keeping.before = k.before
	}
	k.in, k.before, k.behind = nil, nil, nil
	l.len--
}

// A group is the renewables of one node. The keeper's mutex guards it.
//
//	       no answer                    an answer to any batch
//	up ---------------> down, resting -----------------------> up
//	                     |        ^
//	       backoff over  v        | no answer: the backoff doubles
//	                    down, probing
type group struct {
	id uint32

	queue   fifo        // the entries to be sent when there is room
	open    []Renewable // the batch that is being filled; empty if there is none
	probe   bool        // the group was down when open was last added to
	spare   []Renewable // a batch that has landed, whose memory is filled again
	flights int         // the number of batches in flight

	// While the group is down, one batch at a time is sent, as a probe, each a backoff after the
	// failure of the probe before.
	down    bool
	probing bool // a probe is in flight
	backoff time.Duration
	probeAt time.Duration // the time of the next probe, from the epoch
}

// roomLocked returns the number of entries that may be sent to the group now.
func (g *group) roomLocked(k *Keeper, since time.Duration) int {
	if g.down && (g.probing || since < g.probeAt) {
		return 0
	}
	return (k.config.Flights-g.flights)*k.config.Batch - len(g.open)
}

// Probe makes the keeper try again at once all nodes that have not answered, after another caller
// has had an answer from one of them. It may be called concurrently.
func (k *Keeper) Probe() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, g := range k.groups {
		if g.down && !g.probing && g.queue.len > 0 {
			g.probeAt = 0
			k.wakeByLocked(awake)
		}
	}
}

// launchGroupLocked sends the open batch, even if the group has gone down while the batch was
// filled.
func (k *Keeper) launchGroupLocked(g *group) {
	batch, probe := g.open, g.probe
	g.open, g.spare = g.spare, nil
	if k.closed {
		return
	}
	g.flights++
	g.probing = g.probing || probe
	k.wg.Go(func() { k.fly(g, batch, probe) })
}

// fly sends one batch, and then lines up its entries that were nudged meanwhile.
func (k *Keeper) fly(g *group, batch []Renewable, probe bool) {
	reached := k.config.Send(k.ctx, g.id, batch)

	k.mu.Lock()
	defer k.mu.Unlock()
	g.flights--
	g.probing = g.probing && !probe
	switch {
	case reached:
		g.down = false
	case g.down && !probe: // the batch was sent before the node was known to be down
	default:
		if g.backoff = min(2*g.backoff, k.config.MaxBackoff); !g.down {
			g.down, g.backoff = true, k.config.MinBackoff
		}
		g.probeAt = k.clock().Sub(k.epoch) + g.backoff
	}
	// From the last to the first: unreached entries go to the front of the queue, in the order of
	// the batch.
	for i := len(batch) - 1; i >= 0; i-- {
		e := batch[i].Entry()
		e.keeping.flying = false
		switch {
		case e.keeping.owner == nil: // stopped meanwhile
		case reached:
			if e.keeping.nudged.Load() {
				k.lineUpLocked(e)
			}
		case e.keeping.asked:
			// The answer may be from before the failure: ask again.
			e.keeping.nudged.Store(true)
		case e.keeping.in == nil:
			g.queue.pushFront(e)
		}
	}
	clear(batch)
	g.spare = batch[:0]
	if g.queue.len > 0 {
		k.wakeByLocked(awake)
	}
}
