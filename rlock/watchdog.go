package rlock

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/lease"
)

// A tenure is what the keeper renews: these are the methods it is renewed by.
// They take the shard's mutex, which Unlock holds when it ends a tenure. A mirror
// that was built before is on its way, and Unlock does not return before it has
// landed; one built after finds the tenure over. So nothing is renewed after
// Unlock. (A mirror that meets the release on the way finds the key gone.)

// Entry implements [lease.Renewable].
func (t *tenure) Entry() *lease.Entry { return &t.entry }

// Group implements [lease.Renewable]: the node.
func (t *tenure) Group() uint32 { return t.room.client.nodes.of(t.room.name.slot) }

// Due implements [lease.Renewable].
func (t *tenure) Due(now time.Time) (send bool) {
	r := t.room
	r.shard.mu.Lock()
	defer r.exit()
	switch t.phase {
	case held:
		if !t.valid(now) {
			t.lapse(now)
			return true
		}
		if t.dirty || !now.Before(t.due()) {
			r.client.keeper.Schedule(t, t.validUntil())
			return true
		}
		r.client.keeper.Schedule(t, t.due())
	case releasing:
		if now.Before(t.until) {
			r.client.keeper.Schedule(t, t.until)
			return true
		}
		t.end()
	}
	return false
}

// due is when the keeper must look at a tenure next: a third of its lease after
// the last mirror, sooner after one that failed, and when it ends.
func (t *tenure) due() time.Time {
	until := t.validUntil()
	if _, bounded := t.asked(); bounded {
		return until
	}
	renewal := t.sentAt.Add(t.atMostShortest(t.room.client.config.Lease) / 3)
	if renewal.Before(until) {
		return renewal
	}
	return until
}

// errGone is what Redis says when it answers "not yours".
var errGone = errors.New("its key is gone, or another's")

// A sent is one command of a batch, and what was true when it was built.
type sent struct {
	tenure  *tenure
	phase   phase // held: a mirror; releasing: a release
	counted bool  // the mirror asks for the channel's subscribers
	own     bool  // and this client was one of them
}

// send implements [lease.Sender]: a batch of mirrors and releases to one node.
func (c *Client) send(ctx context.Context, _ uint32, batch []lease.Renewable) (reached bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	calls := make([]call, 0, len(batch))
	built := make([]sent, 0, len(batch))
	for _, item := range batch {
		t := item.(*tenure)
		t.room.shard.mu.Lock()
		if s, command, ok := t.command(); ok {
			built, calls = append(built, s), append(calls, command)
		}
		t.room.shard.mu.Unlock()
	}
	if len(calls) == 0 {
		return true
	}
	results := doAll(ctx, c.redis, calls)
	for _, result := range results {
		reached = reached || answered(result.Error())
	}
	for i, result := range results {
		t := built[i].tenure
		t.room.shard.mu.Lock()
		t.answered(built[i], result, reached)
		t.room.exit()
	}
	age := topologyAge
	if !reached {
		age = troubledAge
	}
	c.nodes.refreshIfOld(c.ctx, time.Now(), age)
	return reached
}

// command returns what is to be sent for the tenure now, if anything.
func (t *tenure) command() (sent, call, bool) {
	c, n := t.room.client, t.room.name
	s := sent{tenure: t, phase: t.phase}
	keys := []string{n.key, n.channel}
	switch t.phase {
	case held:
		now := time.Now()
		ttl := t.longest().Sub(now)
		if _, bounded := t.asked(); !bounded {
			ttl = max(ttl, c.config.Lease)
		}
		t.sending(now, ttl)
		t.dirty, t.flying = false, true
		owner := t.owner.String()
		if t.text[tenureLen:] != owner {
			t.text = t.text[:tenureLen] + owner
		}
		ask := ""
		if t.room.queue.Len() > 0 && c.numsub != "" {
			ask = c.numsub
			s.counted, s.own = true, c.hub.Confirmed(n.channel)
		}
		return s, call{mirrorScript, keys, []string{c.milliseconds(ttl), t.text, strconv.Itoa(len(t.levels)), ask}}, true
	case releasing:
		return s, t.releaseCall(), true
	}
	return s, call{}, false
}

// answered deals with the answer to a command of the keeper. If its node was not
// reached at all, the keeper tries it again with the whole batch; what failed in
// a batch of which something was answered, be it by an error or by a connection
// that ended in between, is tried again by the wheel.
func (t *tenure) answered(s sent, result rueidis.RedisResult, reached bool) {
	if s.phase == held {
		t.flying = false
		if t.landed != nil {
			close(t.landed)
		}
	}
	if t.phase != s.phase {
		return // it ended meanwhile
	}
	now := time.Now()
	reply, err := result.AsInt64()
	if t.phase == releasing {
		t.answeredRelease(now, reply, err, reached)
		return
	}
	if err != nil {
		_, err = diagnose(err)
	}
	switch {
	case errors.Is(err, ErrWrongType) || err == nil && reply == 0:
		t.lose(errGone)
		t.end()
		return
	case err != nil:
		t.failed(now, err, reached)
		return
	}
	t.fails, t.err = 0, nil
	t.trust.Confirmed()
	t.room.client.keeper.Schedule(t, t.due())
	if s.counted {
		t.heardOfOthers(now, reply, s.own)
	}
}

// failed has a mirror tried again soon, not at the next third.
func (t *tenure) failed(now time.Time, err error, reached bool) {
	c := t.room.client
	t.dirty, t.err = true, err
	if !answered(err) {
		t.shortest = t.atMostShortest(t.lease)
	}
	if reached {
		backoff := min(50*time.Millisecond<<min(t.fails, 10), c.config.Lease/10, time.Second)
		t.fails++
		again := now.Add(backoff)
		if until := t.validUntil(); until.Before(again) {
			again = until
		}
		c.keeper.Schedule(t, again)
	}
}

// answeredRelease deals with the answer to a release in the background.
func (t *tenure) answeredRelease(now time.Time, reply int64, err error, reached bool) {
	switch {
	case err == nil && !(t.ghost && reply == 0):
		t.end()
	case reached:
		// Not answered yet, or not executed yet: a ghost may come until its
		// connection is given up, so it is looked for until its lease is over.
		again := now.Add(min(50*time.Millisecond<<min(t.fails, 10), t.lease/4))
		t.fails++
		if again.Before(t.until) {
			t.room.client.keeper.Schedule(t, again)
		}
	}
}

// heardOfOthers begins or ends the time in which the lock is passed on here while
// other clients wait (design section 5). The client's own subscription counts as
// nobody, but only if it was there before and after.
func (t *tenure) heardOfOthers(now time.Time, reply int64, own bool) {
	others := reply - 1
	if own && t.room.client.hub.Confirmed(t.room.name.channel) {
		others--
	}
	t.others = int(max(others, 0))
	if reply < 0 || others > 0 {
		if !t.contested {
			t.contested, t.contestedAt, t.passes = true, now, 0
		}
		t.room.subscribe()
		return
	}
	t.contested = false
}
