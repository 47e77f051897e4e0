package driver

import (
	"errors"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// Counts are what a shard adds to the figures about a client. They are in the shard since its
// mutex is held wherever they change: so they need no atomics, and goroutines that work on
// different locks do not share them.
type Counts struct {
	Held     int64
	Waiting  int64
	Acquired [terms.WayCount]int64
	Waited   time.Duration
	Denied   int64
	Canceled int64
	Failed   int64

	Renewals, RenewalsFailed int64 // sent, and of these not confirmed by Redis

	Lost [terms.LossReasonCount]int64 // last, since it is next to another shard
}

// Add adds the other ones.
func (n *Counts) Add(other *Counts) {
	n.Held += other.Held
	n.Waiting += other.Waiting
	for way := range n.Acquired {
		n.Acquired[way] += other.Acquired[way]
	}
	n.Waited += other.Waited
	n.Denied += other.Denied
	n.Canceled += other.Canceled
	n.Failed += other.Failed
	n.Renewals += other.Renewals
	n.RenewalsFailed += other.RenewalsFailed
	for reason := range n.Lost {
		n.Lost[reason] += other.Lost[reason]
	}
}

// Opened counts a level.
func (n *Counts) Opened(w terms.Way) {
	n.Acquired[w]++
	if w != terms.ByNesting {
		n.Held++
	}
}

// Closed counts a level that is over, which was the first of its owner's by then or not.
func (n *Counts) Closed(first bool) {
	if first {
		n.Held--
	}
}

// undone takes back the counts of a level that was closed before its caller had it, and that was the
// first of its owner's by then or not.
func (n *Counts) undone(w terms.Way, first bool) {
	n.Acquired[w]--
	n.Closed(first)
}

// lostOne is Closed for a loss.
func (n *Counts) lostOne(first bool, r terms.LossReason) {
	if first {
		n.Held--
		n.Lost[r]++
	}
}

// GaveUp counts a call that failed, whose context had ended or not.
func (n *Counts) GaveUp(err error, canceled bool) {
	switch {
	case errors.Is(err, terms.ErrNotAcquired):
		n.Denied++
	case canceled:
		n.Canceled++
	default:
		n.Failed++
	}
}
