package waitqueue

// A Queue is a first-in first-out line of waiters. Its zero value is an empty
// queue, ready to use.
//
// A Queue is not safe for concurrent use: every method needs the mutex that
// guards the resource of the waiters. Only [Waiter.C] may be used without it.
type Queue[T any] struct {
	head, tail *Waiter[T]
	len        int
}

// A Waiter is one place in a queue, with a value that describes the request. Make one with [NewWaiter]. A waiter may be used again, in
// any queue, once it has left the one it was in, or was chosen, and [Waiter.Drain]
// was called under the mutex of that queue.
type Waiter[T any] struct {
	// Value is the caller's. The queue neither reads nor writes it.
	Value T

	// queue is the queue that the waiter stands in, nil when it stands in none.
	// The mutex of that queue protects it, prev and next.
	queue      *Queue[T]
	prev, next *Waiter[T]

	// mark has capacity one: a wake that finds a mark there already is the same
	// wake, and sending one never blocks.
	mark chan struct{}
}

// NewWaiter returns a waiter that stands in no queue and has no mark.
func NewWaiter[T any]() *Waiter[T] {
	return &Waiter[T]{mark: make(chan struct{}, 1)}
}

// Join puts w at the end of the queue. It panics if w stands in a queue already,
// since two callers would then wait in one place.
func (q *Queue[T]) Join(w *Waiter[T]) {
	if w.queue != nil {
		panic("waitqueue: Join of a waiter that stands in a queue already")
	}
	w.queue, w.prev = q, q.tail
	if q.tail == nil {
		q.head = w
	} else {
		q.tail.next = w
	}
	q.tail = w
	q.len++
}

// Leave takes w out of the queue, from whatever place, and reports whether it
// stood there. False means that w was chosen by [Queue.Pass] before it could
// leave (or had left already): a caller that gives up must then pass its
// turn on.
func (q *Queue[T]) Leave(w *Waiter[T]) bool {
	if w.queue != q {
		return false
	}
	if w.prev == nil {
		q.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.queue, w.prev, w.next = nil, nil, nil
	q.len--
	return true
}

// Pass chooses the first waiter: it removes it from the queue, wakes it and returns it, or
// returns nil if the queue is empty. The caller writes the result for the waiter in the
// same critical section.
func (q *Queue[T]) Pass() *Waiter[T] {
	w := q.head
	if w == nil {
		return nil
	}
	q.Leave(w)
	w.Wake()
	return w
}

// Head returns the first waiter without choosing it, nil if the queue is empty.
func (q *Queue[T]) Head() *Waiter[T] { return q.head }

// All calls yield with each waiter, the first one first, until yield returns false.
// The waiter that it is called with may leave meanwhile.
func (q *Queue[T]) All(yield func(*Waiter[T]) bool) {
	for w := q.head; w != nil; {
		next := w.next
		if !yield(w) {
			return
		}
		w = next
	}
}

// Len returns the number of waiters.
func (q *Queue[T]) Len() int { return q.len }

// C is where w is woken: one mark for every wake that was not yet taken, at most
// one. A mark says "look again", under the mutex; it does not say what changed.
func (w *Waiter[T]) C() <-chan struct{} { return w.mark }

// Wake puts a mark on w. It never blocks, and w keeps its place in the queue.
func (w *Waiter[T]) Wake() {
	select {
	case w.mark <- struct{}{}:
	default:
	}
}

// Drain discards an unreceived mark. It needs the mutex of the queue that w was in, so that
// no wake for its former place can come after it.
func (w *Waiter[T]) Drain() {
	select {
	case <-w.mark:
	default:
	}
}
