package lease

import (
	"math"
	"time"
)

// lookout is the longest sleep of the keeper while anything is scheduled, so that a holder learns
// within it that the machine slept. Timers stand still with the monotonic clock: without it the
// holder would learn only when the rest of a renewal's wait is over. It costs some microseconds a
// second.
const lookout = time.Second

// sleepTolerance is the largest lead of the wall clock over the monotonic clock, since everything
// was last asked, that is not taken for sleep. A holder may learn of a loss as much later. Where
// only the wall clock is slewed, by 500 ppm, everything is asked every few minutes, in vain.
const sleepTolerance = 100 * time.Millisecond

// Values of Keeper.wakesAt that are no time.
const (
	awake = time.Duration(math.MinInt64) // the goroutine looks before it sleeps
	never = time.Duration(math.MaxInt64) // the goroutine has no reason to wake
)

// run is the goroutine of the keeper. It makes passes until there is nothing to do, and sleeps
// until there may be. A pass gathers the entries to ask, asks them, and sends those that said yes:
//
//	wheel: due, or all after sleep --+
//	paced: the pace is over ---------+--> ready --> Due --> open batch --> flight
//	queue of a group with room ------+                  `-> queue, without room
//
// Everything but the calls of Due and Group happens under the mutex. The wake that is left for the
// goroutine while it makes a pass is never lost, since it gathers once more before it sleeps.
func (k *Keeper) run() {
	defer k.wg.Done()
	defer k.timer.Stop()
	// Not unlocked by defer: when Due panics the mutex is not held, and unlocking it then would
	// hide the panic.
	k.mu.Lock()
	for !k.closed {
		k.gatherLocked()
		if k.ready.len == 0 {
			k.sleepLocked()
			continue
		}
		// What becomes ready meanwhile waits for the next pass, so that batches that are not full
		// are not kept waiting.
		k.askLocked(k.ready.len)
		k.launchLocked()
	}
	k.mu.Unlock()
}

// gatherLocked moves to ready the tenures that may be asked about now.
func (k *Keeper) gatherLocked() {
	now := k.clock()
	since := now.Sub(k.epoch)

	// A machine that slept has moved the wall clock on and not the monotonic one, which the wheel
	// runs by. Their owners know which leases are over; the wheel would only ask them later. Many
	// short sleeps count together.
	if skew := now.Round(0).Sub(k.epoch.Round(0)) - since; skew-k.skew > sleepTolerance {
		k.skew = skew
		k.wheel.Flush(k.readyLocked)
	} else {
		k.skew = min(k.skew, skew)
		k.wheel.Advance(now, k.readyLocked)
	}
	// The fifo is by the time of the nudge and not by the end of the pace, which differ by less
	// than a pace. An entry behind one that must rest longer waits with it, and so for less than a
	// pace.
	for e := k.paced.head; e != nil && e.keeping.rest <= since; e = k.paced.head {
		k.readyLocked(e)
	}
	for _, g := range k.groups {
		for range g.turnLocked(k, since) {
			k.readyLocked(g.queue.head)
		}
	}
}

// readyLocked moves e to ready, from whatever fifo it stands in.
func (k *Keeper) readyLocked(e *Entry) {
	e.keeping.leave()
	k.ready.push(e)
}

// urgentLocked moves e, whose time has come during a pass, to the front of ready. The time may be
// the end of a lease, of which a holder learns when the keeper asks, and a pass takes long where
// each Due waits for a contended mutex.
func (k *Keeper) urgentLocked(e *Entry) {
	e.keeping.leave()
	k.ready.pushFront(e)
}

// chunk is the number of entries asked between two times that the keeper takes its mutex: when a
// hundred thousand are due together, Schedule and Stop go on in between.
const chunk = 64

// askLocked asks the first n of ready, or those that are left of them, and puts those that want to
// be sent into the batches of their groups. It releases the mutex while it asks.
func (k *Keeper) askLocked(n int) {
	var asked [chunk]struct {
		owner Renewable
		group uint32
		send  bool
	}
	for n > 0 && k.ready.len > 0 && !k.closed {
		k.wheel.Advance(k.clock(), k.urgentLocked)
		some := asked[:min(n, chunk, k.ready.len)]
		n -= len(some)
		for i := range some {
			e := k.ready.pop()
			e.keeping.asked = true
			e.keeping.nudged.Store(false)
			some[i].owner = e.keeping.owner
		}

		k.mu.Unlock()
		// There is no recover, here or around Send. A panic is a bug in the called code, whose
		// mutex is in an unknown state; hidden, it would end as a lock that is lost for no reason
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
			case e.keeping.nudged.Load(): // after its answer, perhaps
				k.lineUpLocked(e)
			}
		}
	}
}

// dispatchLocked deals with an entry that wants to be sent, and stands in no fifo. There is no
// other way into a batch, so it is here that two sends of one renewable are kept a pace apart, and
// from overlapping.
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
	g.addLocked(k, e.keeping.owner)
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

// wakeByLocked sees to it that the goroutine is awake at the given time. It wakes it now if it
// would sleep longer, and leaves the timer to it.
func (k *Keeper) wakeByLocked(at time.Duration) {
	if at >= k.wakesAt {
		return
	}
	k.wakesAt, k.wokenFor = awake, at
	select {
	case k.wake <- struct{}{}:
	default: // the mark of an earlier wake, which it has not seen yet
	}
}

// sleepLocked waits, without the mutex, until there may be something to do. With nothing scheduled
// there is no timer.
//
// The entry for which the goroutine was woken may be stopped by now. It wakes at that time all the
// same, once: otherwise each of many leases that are taken and given back would wake it.
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
		k.wakesAt = min(k.wakesAt, g.wakesAtLocked())
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
