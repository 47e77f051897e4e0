package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// mirrorsTogether is how many mirrors share one call of the script. Alone, most
// of what a mirror costs is the call (bench: 2.9 us of Redis' time, 1.7 us in a
// call of 32). Redis serves nobody else during a call, here for some 50 us.
const mirrorsTogether = 32

// A sent is one tenure of a batch, and what was true when it was built.
type sent struct {
	tenure *tenure
	group  int   // the same for mirrors that may share a call
	phase  phase // held: a mirror; releasing: a release

	// Of a mirror:
	lease, owner, count string
	reads               bool // whether the tenure has shared levels
	opened              bool // and others may have some, since it gave up the write lock
	asking              bool // whether it asks for others that wait
	track               bool // whether Redis is to tell of changes of the key
	claimed             bool // whether Redis was asked for a claim before

	// Redis' answer.
	reply int64
	err   error
}

// asks returns by what the others are counted that wait, nothing if the mirror does not ask.
func (s *sent) asks(c *Client) wire.Asker {
	if !s.asking {
		return wire.Asker{}
	}
	n := s.tenure.room.name
	return c.Redis.Asks(&n.Keys, c.leavesTurns(n, time.Now()))
}

// batches are used again: of a hundred thousand locks there are 80 a second.
var batches = sync.Pool{New: func() any { return new([]sent) }}

// send implements [lease.Sender]: a batch of mirrors and releases to one node.
func (c *Client) send(ctx context.Context, _ uint32, batch []lease.Renewable) (reached bool) {
	ctx, cancel := c.Redis.Within(ctx)
	defer cancel()
	pooled := batches.Get().(*[]sent)
	built := (*pooled)[:0]
	defer func() {
		clear(built)
		*pooled = built
		batches.Put(pooled)
	}()
	now := time.Now()
	for _, item := range batch {
		t := item.(*tenure)
		t.room.shard.mu.Lock()
		if s, ok := t.build(now); ok {
			built = append(built, s)
		}
		t.room.shard.mu.Unlock()
	}
	if len(built) == 0 {
		return true
	}
	c.exchange(ctx, built, mirrorsTogether)
	for _, s := range built {
		reached = reached || wire.Answered(s.err)
	}
	began := now
	now = time.Now()
	renewals := RenewedInfo{Took: now.Sub(began), Margin: c.Config.Lease, Lease: c.Config.Lease}
	for _, s := range built {
		s.tenure.room.shard.mu.Lock()
		countRenewal(&renewals, &s, now)
		s.tenure.answered(now, s, reached)
		s.tenure.room.exit()
	}
	c.tellRenewed(renewals)
	c.Redis.Nodes.Refresh(now, !reached)
	return reached
}

// exchange sends one pipeline: a call for each release, and one for mirrors of one
// kind and slot, at most so many. It sorts built and fills in the answers.
func (c *Client) exchange(ctx context.Context, built []sent, together int) {
	byGroup := func(a, b sent) int { return a.group - b.group }
	if !slices.IsSortedFunc(built, byGroup) {
		slices.SortStableFunc(built, byGroup)
	}
	var calls []wire.Call
	var parts [][]sent // of built, one for each call
	for rest := built; len(rest) > 0; {
		n := 1
		for rest[0].phase == held && n < min(len(rest), together) && rest[n].phase == held && rest[n].group == rest[0].group {
			n++
		}
		calls, parts = append(calls, callFor(c, rest[:n])), append(parts, rest[:n])
		rest = rest[n:]
	}
	for i, result := range c.Redis.DoAll(ctx, calls) {
		if err := result.Error(); err != nil && wire.Answered(err) && len(parts[i]) > 1 {
			// One lock may be to blame: a key of another type, a name that the ACL
			// excludes, a proxy that knows of slots where this client does not.
			c.exchange(ctx, parts[i], 1)
			continue
		}
		fillIn(parts[i], result)
	}
}

// callFor returns the one call for part: a release, or mirrors.
func callFor(c *Client, part []sent) wire.Call {
	first := part[0].tenure
	if part[0].phase == releasing {
		return first.releaseCall()
	}
	call := first.room.name.kind().mirror(c, part)
	for _, s := range part {
		if s.track {
			call.Track = append(call.Track, s.tenure.room.name.Key)
		}
	}
	return call
}

// fillIn tells each of part what Redis said to it.
func fillIn(part []sent, result rueidis.RedisResult) {
	if part[0].phase == releasing {
		part[0].reply, part[0].err = result.AsInt64()
		return
	}
	replies, err := result.ToArray()
	if err == nil && len(replies) != len(part) {
		err = fmt.Errorf("%d replies to %d mirrors", len(replies), len(part))
	}
	for i := range part {
		if part[i].err = err; err == nil {
			part[i].reply, part[i].err = replies[i].AsInt64()
		}
	}
}
