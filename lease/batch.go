package lease

import "time"

// A group is the renewables of one node. The keeper's mutex protects it.
//
//	       no answer                    an answer to any batch
//	up ---------------> down, resting -----------------------> up
//	                     |        ^
//	       backoff over  v        | no answer: the backoff doubles
//	                    down, probing
type group struct {
	id uint32

	queue   fifo        // entries to be sent when there is room
	open    []Renewable // the batch that is being filled, empty if there is none
	probe   bool        // the group was down when open was last added to
	spare   []Renewable // a batch that has landed, to be filled again
	flights int         // the batches that are in flight

	// While the group is down, one batch at a time is sent, each a backoff after the failure of the
	// one before.
	down    bool
	probing bool // the probe is in flight
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

// turnLocked returns the number of entries of the queue to ask again now: as many as there is room
// for. Before a probe it is all of them, so that an entry that lives on another node by now goes
// there, and one that is over goes away, although the node that did not answer never comes back.
func (g *group) turnLocked(k *Keeper, since time.Duration) int {
	room := g.roomLocked(k, since)
	if g.down && room > 0 {
		return g.queue.len
	}
	return min(room, g.queue.len)
}

// wakesAtLocked returns the time at which the group has something to do by itself.
func (g *group) wakesAtLocked() time.Duration {
	if g.down && !g.probing && g.queue.len > 0 {
		return g.probeAt
	}
	return never // until a batch ends, which wakes the keeper
}

// Probe makes the keeper try again at once all nodes that it avoids since they did not answer:
// another caller has had an answer from one of them. It may be called concurrently.
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

// addLocked adds r to the batch being filled; there must be room. A full one is sent.
func (g *group) addLocked(k *Keeper, r Renewable) {
	g.open = append(g.open, r)
	g.probe = g.down
	if len(g.open) == k.config.Batch {
		k.launchGroupLocked(g)
	}
}

// launchLocked sends the batches that are not full.
func (k *Keeper) launchLocked() {
	for _, g := range k.groups {
		if len(g.open) > 0 {
			k.launchGroupLocked(g)
		}
	}
}

// launchGroupLocked sends the open batch, even if the group went down while it was being filled: it
// is then one of those that were sent before it was known.
func (k *Keeper) launchGroupLocked(g *group) {
	batch, probe := g.open, g.probe
	g.open, g.spare = g.spare, nil
	if k.closed {
		return
	}
	g.flights++
	g.probing = g.probing || probe
	k.wg.Add(1)
	go k.fly(g, batch, probe)
}

// fly sends one batch, and then schedules members that were nudged meanwhile.
func (k *Keeper) fly(g *group, batch []Renewable, probe bool) {
	defer k.wg.Done()
	reached := k.config.Send(k.ctx, g.id, batch)

	k.mu.Lock()
	defer k.mu.Unlock()
	g.landedLocked(k, reached, probe)
	// From the last to the first, since unreached members go to the front of the queue, in its
	// order.
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
			// Its answer may be from before the failure: ask again.
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

// landedLocked notes whether the node answered.
func (g *group) landedLocked(k *Keeper, reached, probe bool) {
	g.flights--
	if probe {
		g.probing = false
	}
	switch {
	case reached:
		g.down = false
		return
	case g.down && !probe: // sent before that was known: nothing new
		return
	case g.down:
		g.backoff = min(2*g.backoff, k.config.MaxBackoff)
	default:
		g.down, g.backoff = true, k.config.MinBackoff
	}
	g.probeAt = k.clock().Sub(k.epoch) + g.backoff
}
