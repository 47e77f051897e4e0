package engine

import (
	"errors"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// Counts returns the sums of all shards, each as of a moment during the call.
func (c *Client) Counts() (sum Counts) {
	for shard := range c.allShards {
		shard.mu.Lock()
		n := shard.counts
		shard.mu.Unlock()
		sum.add(&n)
	}
	for _, b := range c.besides() {
		n := b.Counts()
		sum.add(&n)
	}
	return sum
}

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

func (n *Counts) add(other *Counts) {
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

// opened counts a level.
func (n *Counts) opened(w Way) {
	n.Acquired[w]++
	if w != ByNesting {
		n.Held++
	}
}

// closed counts a level that is over.
func (n *Counts) closed(w Way) {
	if w != ByNesting {
		n.Held--
	}
}

// lostOne counts a level that is over by loss.
func (n *Counts) lostOne(w Way, r LossReason) {
	if w != ByNesting {
		n.Held--
		n.Lost[r]++
	}
}

// gaveUp counts a call that failed, of which ctx had ended or not.
func (n *Counts) gaveUp(err error, canceled bool) {
	switch {
	case errors.Is(err, ErrNotAcquired):
		n.Denied++
	case canceled:
		n.Canceled++
	default:
		n.Failed++
	}
}
