package lease

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

// pop takes the first entry out; the fifo must not be empty.
func (l *fifo) pop() *Entry {
	e := l.head
	e.keeping.leave()
	return e
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
