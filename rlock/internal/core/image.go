package core

import (
	"maps"

	"github.com/go-rlock/rlock/waitqueue"
)

// For the explorer, which keeps a copy of a client for each state, and tells states apart: see key.go. What ships calls neither.
// A new field has its place there, unless a struct is copied as a whole; a test finds one that was left out.

const mostLocks = 3

// An Image is the memory of a copy of a client and its locks. It may be used again.
type Image struct {
	Client Client
	Locks  [mostLocks]Lock

	tenures copies[Tenure]
	calls   copies[Call]
	gone    Tenure // stands for each forgotten one, and stays zero: no answer fits it
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
func (y *Image) Copy(c *Client, locks ...*Lock) {
	to := &y.Client
	effects, taken, partings := to.Effects[:0], to.taken, to.partings[:0]
	y.Client = *c
	to.Effects, to.taken, to.partings = effects, taken, append(partings, to.partings...)
	y.tenures.n, y.calls.n = 0, 0
	for i, l := range locks {
		y.lock(l, &y.Locks[i])
	}
	if t := to.spare; t != nil {
		to.spare = y.tenures.add(t)
		*to.spare = Tenure{Tag: t.Tag, flight: t.flight}
	}
}

func (y *Image) lock(from, to *Lock) {
	all := to.levels.all[:0]
	*to = *from
	to.client = &y.Client
	to.levels.all = append(all, from.levels.all...)
	to.tenures, to.line = tenures{}, line{calls: from.line.calls, overdue: from.line.overdue, repeats: maps.Clone(from.line.repeats)}
	for t := from.tenures.first; t != nil; t = t.behind {
		c := y.tenures.add(t)
		c.lock, c.behind = to, nil
		to.tenures.add(c)
	}
	for w := range from.line.All {
		c := y.calls.add(w.Value)
		c.position = waitqueue.Waiter[*Call]{Value: c}
		to.line.Join(&c.position)
		c.Tenure = y.Tenure(c.Tenure)
	}
	for t := to.tenures.first; t != nil; t = t.behind {
		if c := y.Call(t.Agent); c != nil {
			t.Agent, c.Tenure = c, t // that of a Resume or of a release is not in the line
		}
	}
	to.owner = y.Tenure(from.owner)
}

// Tenure returns the copy of a tenure. All forgotten ones that are not spare have the same copy.
func (y *Image) Tenure(t *Tenure) *Tenure {
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
func (y *Image) Call(w *Call) *Call {
	if w == nil {
		return nil
	}
	c := y.calls.of(w)
	if c == nil {
		c = y.calls.add(w)
		c.Tenure = nil
		if w.Purpose == Tends && w.Outcome == Waiting {
			c.Tenure = y.Tenure(w.Tenure)
		}
	}
	return c
}

// Command makes the command name the copies of its tenures.
func (y *Image) Command(cmd *Command) {
	cmd.Tenure, cmd.joins = y.Tenure(cmd.Tenure), y.Tenure(cmd.joins)
}
