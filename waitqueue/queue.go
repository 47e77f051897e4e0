package waitqueue

// A Queue is a first-in first-out line of waiters. Its zero value is an empty queue, ready to use.
// It must not be copied while a waiter stands in it.
//
// A Queue is not safe for concurrent use: every method needs the mutex that guards the resource of
// the waiters.
type Queue[T any] struct {
	head *Waiter[T]
	len  int
}

// A Waiter is one place in a queue. Its zero value stands in no queue, and is ready to use. It must
// not be copied while it stands in a queue. Once it has left, it may be reused, in any queue.
type Waiter[T any] struct {
	Value T // the caller's value; the queue neither reads nor writes it

	queue *Queue[T]  // the queue in which it stands, or nil
	prev  *Waiter[T] // the waiter before; for the first waiter the last one
	next  *Waiter[T] // the waiter behind, or nil
}

// Join puts w at the end of the queue. It panics if w already stands in a queue: two callers would
// wait in one place.
func (q *Queue[T]) Join(w *Waiter[T]) {
	if w.queue != nil {
		panic("waitqueue: Join of a waiter that stands in a queue already")
	}
	if w.queue = q; q.head == nil {
		q.head = w
	} else {
		w.prev = q.head.prev
		w.prev.next = w
	}
	q.head.prev = w
	q.len++
}

// Leave takes w out of the queue, and reports whether w stood there.
func (q *Queue[T]) Leave(w *Waiter[T]) bool {
	if w.queue != q {
		return false
	}
	if w == q.head {
		q.head = w.next
	} else {
		w.prev.next = w.next
	}
	switch {
	case w.next != nil:
		w.next.prev = w.prev
	case q.head != nil:
		q.head.prev = w.prev
	}
	w.queue, w.prev, w.next = nil, nil, nil
	q.len--
	return true
}

// Head returns the first waiter; nil if the queue is empty.
func (q *Queue[T]) Head() *Waiter[T] { return q.head }

// All calls yield with each waiter, the first one first, until yield returns false. During the call
// this waiter and the waiters before it may leave, but not the waiter behind it.
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

// InLine reports whether w stands in a queue.
func (w *Waiter[T]) InLine() bool { return w.queue != nil }
