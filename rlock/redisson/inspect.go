package redisson

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The kinds of synchronizers in a [State].
const (
	KindSemaphore       rlock.Kind = "RSemaphore"
	KindPermitSemaphore rlock.Kind = "RPermitExpirableSemaphore"
	KindCountDownLatch  rlock.Kind = "RCountDownLatch"
)

// A State is what Redis has of one synchronizer at a moment.
type State struct {
	Name string
	// Kind is the kind, "" if it is not known. In Redis the number of a semaphore, the number of a
	// latch and any other number are alike: only taken permits, or clients that listen, show the
	// kind.
	Kind    rlock.Kind
	Present bool          // the key exists
	Number  int64         // the number of free permits, which may be negative, or the count of a latch
	Lease   time.Duration // the time until the key expires; rlock.NoExpiry if it stays
	// Taken are the first inspect.Limit of the permits of a PermitSemaphore that are taken, and
	// TakenCount is the number of all. Permits whose leases have ended are among them until the
	// next call of any client.
	Taken      []Taken
	TakenCount int
	Listening  int // the number of clients that listen, up to a minute after their last wait; -1 if it is not known
}

// Taken is a permit that some process has taken.
type Taken struct {
	ID      string
	Lease   time.Duration    // the rest of the lease; 0 if it has ended; rlock.NoExpiry for a permit without an end
	Process *inspect.Process // the process that took the permit; nil if it is not known, as for Java
}

// Inspect reads the state of the synchronizer of that name, for operators. It fails with
// [rlock.ErrWrongType] if the key is something else. Its other errors are the errors of
// [inspect.Inspector.Lock].
func (c *Client) Inspect(ctx context.Context, name string) (State, error) {
	s := c.PermitSemaphore(name)
	state := State{Name: name, Listening: -1}
	if s.err != nil {
		return state, s.err
	}
	r, keys := c.shared.Redis, &wire.Keys{Key: s.key}
	if err := r.AwaitConnection(ctx, nil); err != nil {
		return state, s.named(wire.ExplainTo(ctx, err))
	}
	keys.Slot = r.SlotOf(s.key)
	count := "NUMSUB"
	if r.Sharded {
		count = "SHARDNUMSUB"
	}
	questions := []rueidis.Completed{
		r.Arbitrary(s.key, "GET"), r.Arbitrary(s.key, "PTTL"),
		r.Arbitrary(s.set, "ZCOUNT", "-inf", "+inf"), r.Arbitrary(s.set, "ZRANGE", "0", strconv.Itoa(inspect.Limit-1), "WITHSCORES"),
		r.Client.B().Time().Build(),
		r.Client.B().Arbitrary("PUBSUB", count, s.channel).Build(), r.Client.B().Arbitrary("PUBSUB", count, latchChannel(s.key)).Build(),
	}
	if c.torn(s.set, s.key) { // no script may have both keys, so there is no such set
		for i := range questions[2:4] {
			questions[2+i] = r.Arbitrary(s.key, "ZCOUNT", "-inf", "+inf") // an error if the key is a number, which has no set
		}
	}
	replies, err := r.Survey(ctx, keys.Slot, questions...)
	if err == nil {
		err = state.read(replies)
	}
	if err != nil {
		return state, s.named(wire.ExplainTo(ctx, err))
	}
	if r.CountsSubscribers() {
		state.countListeners(replies[5], replies[6])
	}
	if len(state.Taken) > 0 {
		state.locate(r.Processes(ctx, keys))
	}
	return state, nil
}

// torn reports whether the two keys have different slots.
func (c *Client) torn(one, other string) bool {
	return c.shared.Redis.InCluster() && wire.HashSlot(one) != wire.HashSlot(other)
}

// read reads the number and the permits.
func (s *State) read(replies []rueidis.RedisResult) (err error) {
	s.Number, err = replies[0].AsInt64()
	s.Present = err == nil
	switch {
	case rueidis.IsRedisNil(err):
	case isNoNumber(err):
		return errNoNumber
	case err != nil:
		return err
	}
	left, err := replies[1].AsInt64()
	if s.Lease = rlock.NoExpiry; left >= 0 {
		s.Lease = wire.Milliseconds(left)
	}
	taken, err2 := replies[2].AsInt64()
	members, err3 := replies[3].AsZScores()
	clock, err4 := replies[4].AsIntSlice()
	switch err = cmp.Or(err, err2, err3, err4); {
	case errors.Is(wire.Explain(err), rlock.ErrWrongType), err == nil && len(clock) != 2: // the key has no set of permits
		return nil
	case err != nil:
		return err
	}
	s.TakenCount = int(taken)
	now := time.UnixMicro(clock[0]*1e6 + clock[1])
	for _, m := range members {
		lease := rlock.NoExpiry
		if m.Score < never {
			lease = max(time.UnixMilli(int64(m.Score)).Sub(now), 0)
		}
		s.Taken = append(s.Taken, Taken{ID: hex.EncodeToString([]byte(m.Member)), Lease: lease})
	}
	if taken > 0 {
		s.Kind = KindPermitSemaphore
	}
	return nil
}

// never is the end of a permit that does not end.
const never = 922337203685477

// countListeners counts the clients that listen, by the replies about the channels of a semaphore
// and of a latch.
func (s *State) countListeners(replies ...rueidis.RedisResult) {
	s.Listening = 0
	for i, kind := range []rlock.Kind{KindSemaphore, KindCountDownLatch} {
		counts, err := replies[i].AsIntMap()
		if err != nil {
			s.Listening = -1
			return
		}
		for _, n := range counts {
			if s.Listening += int(n); n > 0 {
				s.Kind = cmp.Or(s.Kind, kind)
			}
		}
	}
}

// locate finds the processes of permits that were taken in Go, by their ids: see newID.
func (s *State) locate(p *wire.Processes) {
	for i, t := range s.Taken {
		if len(t.ID) == 32 {
			s.Taken[i].Process = (*inspect.Process)(p.OfClient(t.ID[:8] + "-" + t.ID[8:12] + "-" + t.ID[12:16] + "-"))
		}
	}
}

// Names returns the sorted names of the synchronizers that match a pattern of Redis' KEYS, "" for
// all. It finds synchronizers with taken permits, and with clients that listen; others look like
// any number. It reads the keyspace in pages. Beside an error it may return the names on the other
// nodes of a Cluster.
func (c *Client) Names(ctx context.Context, pattern string) (names []string, err error) {
	r := c.shared.Redis
	pattern = wire.Literal(c.prefix) + cmp.Or(pattern, "*")
	listing := func(err error) error {
		return fmt.Errorf("rlock: redisson: list names %q: %w", pattern, wire.ExplainTo(ctx, err))
	}
	if err := r.AwaitConnection(ctx, nil); err != nil {
		return nil, listing(err)
	}
	if err := r.AtPrimary(ctx); err != nil {
		return nil, listing(err)
	}
	for _, node := range r.EachNode() {
		found, failed := wire.Promptly(ctx, r, 0, func(ctx context.Context) ([]string, error) { return c.namesOn(ctx, node, pattern) })
		names = append(names, found...)
		if failed != nil {
			err = errors.Join(err, listing(failed))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

func (c *Client) namesOn(ctx context.Context, node rueidis.Client, pattern string) (names []string, err error) {
	list := "CHANNELS"
	if c.shared.Redis.Sharded {
		list = "SHARDCHANNELS"
	}
	for _, form := range []struct{ before, name, after string }{
		{"", "{" + pattern + "}", ":timeout"}, {"", pattern, ":timeout"},
		{semaphores, "{" + pattern + "}", ""}, {semaphores, pattern, ""}, {latches + "{", pattern, "}"},
	} {
		var found []string
		if full := form.before + form.name + form.after; form.before == "" {
			found, err = permitSets(ctx, node, full)
		} else {
			found, err = node.Do(ctx, node.B().Arbitrary("PUBSUB", list, full).Build()).AsStrSlice()
		}
		if err != nil {
			return names, err
		}
		for _, key := range found {
			key = strings.TrimSuffix(strings.TrimPrefix(key, form.before), form.after)
			if form.after != "}" {
				key = unbraced(ctx, node, key)
			}
			names = append(names, strings.TrimPrefix(key, c.prefix))
		}
	}
	return names, nil
}

// permitSets returns the sets of permits that match the pattern: each member is an id of 16 bytes.
func permitSets(ctx context.Context, node rueidis.Client, pattern string) (sets []string, err error) {
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(512).Type("zset").Build()).AsScanEntry()
		if err != nil {
			return sets, err
		}
		for _, key := range page.Elements {
			one, _ := node.Do(ctx, node.B().Arbitrary("ZRANGE").Keys(key).Args("0", "0").ReadOnly()).AsStrSlice()
			if len(one) == 1 && len(one[0]) == 16 { // else it is another set, or gone
				sets = append(sets, key)
			}
		}
		cursor = page.Cursor
	}
	return sets, nil
}

// unbraced is the inverse of braced. For "{x}" it returns x, or "{x}" itself if there is a key of
// that name.
func unbraced(ctx context.Context, node rueidis.Client, text string) string {
	inside, opened := strings.CutPrefix(text, "{")
	inside, closed := strings.CutSuffix(inside, "}")
	if !opened || !closed || strings.Contains(inside, "{") {
		return text
	}
	if n, _ := node.Do(ctx, node.B().Exists().Key(text).Build()).AsInt64(); n > 0 {
		return text
	}
	return inside
}
