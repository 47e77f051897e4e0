package image

import (
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/waitqueue"
)

const mostLocks = 3

// An Image is the memory of a copy of a client and its locks. It may be used again.
type Image struct {
	Client core.Client
	Locks  [mostLocks]core.Lock

	tenures copies[core.Tenure]
	calls   copies[core.Call]
	gone    core.Tenure // stands for each forgotten one, and stays zero: no answer fits it
}

// copies are those of structs of one type. They are made one by one, since an explorer keeps many images at once, and most of
// them have few structs.
type copies[T any] struct {
	all []copied[T] // the first n are in use
	n   int
}

type copied[T any] struct{ from, to *T }

// add returns a copy of a struct.
func (s *copies[T]) add(from *T) *T {
	if s.n == len(s.all) {
		s.all = append(s.all, copied[T]{to: new(T)})
	}
	c := &s.all[s.n]
	c.from, *c.to = from, *from
	s.n++
	return c.to
}

// of returns the copy of a struct, nil if there is none.
func (s *copies[T]) of(from *T) *T {
	for i := range s.all[:s.n] {
		if s.all[i].from == from {
			return s.all[i].to
		}
	}
	return nil
}

// Copy makes the image a copy of a client and its locks.
func (y *Image) Copy(c *core.Client, locks ...*core.Lock) {
	to := ofClient(&y.Client)
	effects, taken, partings := to.Effects[:0], to.taken, to.partings[:0]
	y.Client = *c
	to.Effects, to.taken, to.partings = effects, taken, append(partings, to.partings...)
	y.tenures.n, y.calls.n = 0, 0
	for i, l := range locks {
		y.lock(l, &y.Locks[i])
	}
	if t := to.spare; t != nil {
		to.spare = y.tenures.add(t)
		n := ofTenure(to.spare)
		*n = tenure{Tag: n.Tag, flight: n.flight}
	}
}

func (y *Image) lock(from, to *core.Lock) {
	l, n := ofLock(from), ofLock(to)
	all := n.levels.all[:0]
	*to = *from
	n.client = &y.Client
	n.levels.all = append(all, l.levels.all...)
	n.tenures, n.line = tenures{}, line{calls: l.line.calls}
	for t := l.tenures.first; t != nil; t = ofTenure(t).behind {
		c := y.tenures.add(t)
		ofTenure(c).lock = to
		n.tenures.add(c)
	}
	for w := range l.line.All {
		c := y.calls.add(w.Value)
		n.line.join(c)
		c.Tenure = y.Tenure(c.Tenure)
	}
	for t := n.tenures.first; t != nil; t = ofTenure(t).behind {
		if c := y.Call(ofTenure(t).Agent); c != nil {
			ofTenure(t).Agent, c.Tenure = c, t // that of a Resume or of a release is not in the line
		}
	}
	n.owner = y.Tenure(l.owner)
}

// add puts a tenure at the end of the list, as core does.
func (s *tenures) add(t *core.Tenure) {
	n := ofTenure(t)
	if n.prev, n.behind = s.last, nil; n.prev != nil {
		ofTenure(n.prev).behind = t
	} else {
		s.first = t
	}
	s.last = t
	s.len++
}

// join puts a call at the end of the line, as core does.
func (l *line) join(w *core.Call) {
	n := ofCall(w)
	n.position = waitqueue.Waiter[*core.Call]{Value: w}
	l.Join(&n.position)
	if n.counted {
		if l.repeats == nil {
			l.repeats = make(map[core.OwnerID]int)
		}
		l.repeats[w.Owner]++
	}
	if n.overdue {
		l.overdue++
	}
}

// Tenure returns the copy of a tenure. All forgotten ones that are not spare have the same copy.
func (y *Image) Tenure(t *core.Tenure) *core.Tenure {
	switch c := y.tenures.of(t); {
	case t == nil:
		return nil
	case c == nil:
		return &y.gone
	default:
		return c
	}
}

// Call returns the copy of a call, which may have left the line.
func (y *Image) Call(w *core.Call) *core.Call {
	if w == nil {
		return nil
	}
	c := y.calls.of(w)
	if c == nil {
		c = y.calls.add(w)
		c.Tenure = nil
		if w.Purpose == core.Tends && w.Outcome == core.Waiting {
			c.Tenure = y.Tenure(w.Tenure)
		}
	}
	return c
}

// Command makes the command name the copies of its tenures.
func (y *Image) Command(cmd *core.Command) {
	m := ofCommand(cmd)
	m.Tenure, m.joins = y.Tenure(m.Tenure), y.Tenure(m.joins)
}
