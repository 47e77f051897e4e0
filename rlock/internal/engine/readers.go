package engine

import "time"

// How the readers of one process share a tenure. In Redis they are one reader, so
// that joining, nesting and leaving wait for no network and send nothing, but for
// the last to leave. They hold back for a writer that waits here, since the queue is
// first-in first-out, and for others elsewhere as far as turns go: a stream of
// readers must end. That no other stream begins meanwhile is up to the queue in Redis,
// where later readers stand behind the writer. A reader that is held back for long takes a
// place there as well.

// readersTime is for how long a reader is held back at most before it takes a ticket, and how old
// the last news of the others may be when another one is refused.
const readersTime = time.Second

// mayJoin reports whether the request is a reader's, and may have a level of its own
// beside the readers here.
func (r *room) mayJoin(now time.Time, req Request) bool {
	t := r.tenure
	if t == nil || t.phase != held || !req.Shared || !t.shared || r.queue.Len() > 0 {
		return false
	}
	if t.mayPass(now, req) {
		return true
	}
	// The others may have left since. No waiter asks Redis, if the request does not wait.
	if t.contested() && now.Sub(t.trust.SentAt()) >= readersTime {
		t.mirror()
	}
	return false
}

// join opens the first level of one more reader. Nobody else may ask whether
// others wait: no reader of this client waits then.
func (t *tenure) join(now time.Time, req Request) {
	t.nest(now, req)
	if now.Sub(t.trust.SentAt()) >= t.room.client.Config.HandoffTime {
		t.mirror()
	}
}

// admit lets the readers at the head of the queue in beside those that read: all of
// them at the beginning of a turn, for which they have waited, else as many as may
// join.
func (r *room) admit(now time.Time, all bool) {
	t := r.tenure
	for w := r.head(); w != nil && w.Shared && (all || t.mayPass(now, w.Request)); w = r.head() {
		r.admitBeside(w, ByJoining, now)
		r.admitOwner(w.Owner, now)
	}
	if w := r.head(); w != nil && w.Shared {
		w.Wake() // it takes a ticket when it has been held back for long
	}
}

// isHeldBack reports whether w is the reader that is the next to join the readers here, and
// holds back for others that wait elsewhere.
func (r *room) isHeldBack(w *waiter) bool {
	t := r.tenure
	return t != nil && t.phase == held && t.shared && t.contested() && w.Shared && r.head() == w
}

// beginTurn lets in w, a reader, and the readers behind it, since the ticket t of w was granted
// the lock while this client reads. The ticket is not needed any more.
func (r *room) beginTurn(t *tenure, w *waiter, now time.Time) {
	t.disown(now)
	r.tenure.contestedAt, r.tenure.passes = now, 0
	r.admitBeside(w, ByQueue, now)
	r.admitOwner(w.Owner, now)
	r.admit(now, true)
}

// giveWay puts the writers at the head of the queue behind the waiting readers: as long
// as Redisson's readers keep the writers out, readers have a turn now and then.
func (r *room) giveWay() {
	for reader := range r.waiters {
		if !reader.Shared {
			continue
		}
		for w := r.head(); w != nil && !w.Shared; w = r.head() {
			r.leaveQueue(w)
			r.joinQueue(w)
		}
		r.wakeHead()
		return
	}
}
