package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// forms is the number of forms that the key of a lock has in Redis. Each has a queue of its own;
// plain, fenced and fair locks have the same form.
const forms = 3

// semaphoreForm is the form of a semaphore.
const semaphoreForm = 2

// formKinds are the kinds as which the forms are shown.
var formKinds = [forms]rlock.Kind{KindLock, KindReadWrite, rlock.KindSemaphore}

// An inspection is the state of a lock while it is read.
type inspection struct{ Lock }

// read reads the state of the lock with these keys, by form: first the keys of a plain lock, with
// the key of its tokens. It changes nothing.
func read(ctx context.Context, r *wire.Redis, keys [forms]*wire.Keys) (Lock, error) {
	i := inspection{Lock{Foreign: -1}}
	if err := r.AwaitConnection(ctx, keys[0]); err != nil {
		return Lock{}, wire.ExplainTo(ctx, err)
	}
	results, err := r.Survey(ctx, keys[0].Slot, subjectOf(keys).commands(r, questions(r.Sharded))...)
	if err != nil {
		return Lock{}, err
	}
	replies := make([]rueidis.RedisMessage, len(results))
	for at, result := range results {
		replies[at], _ = result.ToMessage() // a message, or the error of the server
	}
	if err = i.read(replies, keys); err != nil {
		return Lock{}, err
	}
	i.leaveOutTheDead(ctx, r, keys[1])
	i.readForeign(r, replies)
	if i.HolderCount+i.Waiting > 0 {
		i.locate(r.Processes(ctx, keys[0]))
	}
	return i.Lock, nil
}

// leaveOutTheDead removes the readers whose leases have ended: their fields stay in the hash until
// the next step, as long as other readers keep it. A reader stays if Redis does not answer, or if
// its field is gone by now: its tenure may have another owner.
func (i *inspection) leaveOutTheDead(ctx context.Context, r *wire.Redis, rw *wire.Keys) {
	if len(i.Holders) < 2 || slices.ContainsFunc(i.Holders, func(h Holder) bool { return !h.Shared }) {
		return // the hash of a lone reader ends with its lease
	}
	questions := make([]rueidis.Completed, 0, 2*len(i.Holders))
	for _, h := range i.Holders {
		leases, text := make([]string, min(max(h.Count, 1), mostLevels)), string(h.text())
		for level := range leases {
			leases[level] = fmt.Sprintf("%s:%s:rwlock_timeout:%d", rw.Extra(), text, level+1)
		}
		questions = append(questions, r.Client.B().Arbitrary("EXISTS").Keys(leases...).Build(), r.Arbitrary(rw.Key, "HEXISTS", text))
	}
	replies, err := r.Survey(ctx, rw.Slot, questions...)
	if err != nil {
		return
	}
	living := i.Holders[:0]
	for at, h := range i.Holders {
		leases, err := replies[2*at].AsInt64()
		shown, failed := replies[2*at+1].AsInt64()
		if err != nil || failed != nil || leases > 0 || shown == 0 {
			living = append(living, h)
		}
	}
	i.HolderCount -= len(i.Holders) - len(living)
	i.Holders = living
}

// mostLevels is the largest number of leases of one reader that are read: a reader of Redisson has
// a lease for each level, a reader of rlock has one.
const mostLevels = 16

// The replies to the questions, by their index.
const (
	asksLease = iota
	asksMode
	asksSize
	asksFields
	asksToken
	asksForeign
	asksCount   // the number of owners of a semaphore
	asksPermits // the owners of a semaphore with the longest leases
	asksClock
	asksQueues // the number of tickets of each form, and the first of them
)

// asksIf has the condition, in Lua, under which a question is put: that the key is no hash, since a
// question with an error as its answer takes Redis longer; that the queue before has tickets.
var asksIf = map[int]string{
	asksCount: noHash, asksPermits: noHash, asksClock: noHash,
	asksQueues + 1: anyIn(asksQueues), asksQueues + 3: anyIn(asksQueues + 2), asksQueues + 5: anyIn(asksQueues + 4),
}

var noHash = fmt.Sprintf("type(answers[%d]) == 'table'", asksSize+1)

func anyIn(queue int) string { return fmt.Sprintf("answers[%d] ~= 0", queue+1) }

// A subject has the names about which the questions ask: the keys and the channels of one lock.
type subject struct{ keys, channels []string }

func subjectOf(keys [forms]*wire.Keys) subject {
	plain, rw := keys[0], keys[1]
	s := subject{
		keys:     []string{plain.Key, plain.Extra()},
		channels: []string{plain.Channel(), plain.Ushers(), rw.Channel(), rw.Ushers()},
	}
	for _, k := range keys {
		s.keys = append(s.keys, k.Queue())
	}
	return s
}

// questions are the commands of an inspection, which only read. A word "$n" stands for key n of the
// subject, and "@n" for channel n. A key is always the second word.
func questions(sharded bool) [][]string {
	limit := strconv.Itoa(Limit)
	count := "NUMSUB"
	if sharded {
		count = "SHARDNUMSUB"
	}
	asked := [][]string{
		asksLease:   {"PTTL", "$0"},
		asksMode:    {"HGET", "$0", "mode"},
		asksSize:    {"HLEN", "$0"},
		asksFields:  {"HSCAN", "$0", "0", "COUNT", limit},
		asksToken:   {"GET", "$1"},
		asksForeign: {"PUBSUB", count, "@0", "@1", "@2", "@3"},
		asksCount:   {"ZCOUNT", "$0", "0", "+inf"},
		asksPermits: {"ZRANGE", "$0", "-" + limit, "-1", "WITHSCORES"},
		asksClock:   {"TIME"},
	}
	for _, queue := range [forms]string{"$2", "$3", "$4"} {
		asked = append(asked, []string{"ZCOUNT", queue, "1", "+inf"}, []string{"ZRANGEBYSCORE", queue, "1", "+inf", "LIMIT", "0", limit})
	}
	return asked
}

// commands returns the questions about the subject.
func (s subject) commands(r *wire.Redis, questions [][]string) []rueidis.Completed {
	asked := make([]rueidis.Completed, len(questions))
	for at, question := range questions {
		words := slices.Clone(question)
		about := ""
		for n, word := range words {
			switch index, _ := strconv.Atoi(word[1:]); word[0] {
			case '$':
				about = s.keys[index]
			case '@':
				words[n] = s.channels[index]
			}
		}
		if about != "" {
			asked[at] = r.Arbitrary(about, slices.Delete(words, 1, 2)...)
		} else {
			asked[at] = r.Client.B().Arbitrary(words...).Build()
		}
	}
	return asked
}

// read reads the replies, without those about foreign clients.
func (i *inspection) read(replies []rueidis.RedisMessage, keys [forms]*wire.Keys) error {
	if err := i.readLease(&replies[asksLease]); err != nil {
		return wire.Explain(err)
	}
	if err := i.readHolders(replies); err != nil {
		return wire.Explain(err)
	}
	for form, k := range keys {
		if err := i.readQueue(formKinds[form], replies[asksQueues+2*form:]); err != nil {
			return fmt.Errorf("queue %s: %w", k.Queue(), wire.Explain(err))
		}
	}
	if token, err := replies[asksToken].AsInt64(); err == nil && token > 0 {
		i.Token = uint64(token)
	}
	return nil
}

// readHolders reads the owners in a hash, or in the sorted set of a semaphore.
func (i *inspection) readHolders(replies []rueidis.RedisMessage) error {
	err := i.readHash(replies)
	if !errors.Is(wire.Explain(err), wire.ErrWrongType) {
		return err
	}
	permits, failed := wire.PermitsOf(&replies[asksPermits], &replies[asksClock])
	switch {
	case failed == nil:
		count, _ := replies[asksCount].AsInt64()
		return i.readPermits(permits, int(count))
	case errors.Is(wire.Explain(failed), wire.ErrWrongType):
		return err
	}
	return failed
}

// readForeign counts the foreign clients that wait, if Redis has answered. In a Cluster with plain
// pub/sub no node knows all subscribers.
func (i *inspection) readForeign(r *wire.Redis, replies []rueidis.RedisMessage) {
	counts, err := replies[asksForeign].ToArray()
	if err != nil || !r.CountsSubscribers() {
		return
	}
	i.Foreign = 0
	for ; len(counts) >= 4; counts = counts[4:] { // a channel and its number, then the ushers' channel and their number
		listeners, _ := counts[1].AsInt64()
		ushers, _ := counts[3].AsInt64()
		i.Foreign += int(max(listeners-ushers, 0))
	}
}

func (i *inspection) readLease(reply *rueidis.RedisMessage) error {
	left, err := reply.AsInt64()
	switch {
	case left == -1:
		i.Lease = rlock.NoExpiry
	case left >= 0:
		i.Lease = wire.Milliseconds(left)
	}
	return err
}

// readPermits reads the owners of a semaphore. Its key may exist although no permit is held. Of the
// count owners only those up to Limit are known to hold their permits still.
func (i *inspection) readPermits(permits []wire.Permit, count int) error {
	i.Kind, i.HolderCount = formKinds[semaphoreForm], len(permits)+max(count-Limit, 0)
	i.Lease = 0
	for _, p := range permits {
		if !wire.IsOwner(string(p.Owner)) {
			return fmt.Errorf("%w: it is a sorted set with the member %q", wire.ErrWrongType, p.Owner)
		}
		i.Lease = max(i.Lease, p.Left)
		i.addHolder(p.Owner, Holder{Count: 1, Permits: p.Count, Lease: p.Left})
	}
	return nil
}

// addHolder adds the holder with the text, which has what the text does not say.
func (i *inspection) addHolder(text wire.OwnerText, h Holder) {
	i.Holders = append(i.Holders, h.of(text))
}

// of returns the holder with what its text says.
func (h Holder) of(text wire.OwnerText) Holder {
	owner, note := text.CutNote()
	h.Owner, h.Note, h.Since, h.Waited = string(owner), note.Text, note.At, note.Waits
	h.Passed, h.Foreign = text.IsPassed(), !text.IsOurs()
	return h
}

// text returns the text of the holder in Redis.
func (h *Holder) text() wire.OwnerText {
	text := wire.OwnerText(h.Owner)
	if !h.Since.IsZero() {
		text = text.WithNote(wire.Note{Text: h.Note, At: h.Since, Waits: h.Waited})
	}
	return text.WithMore(int32(max(h.Permits, 1) - 1))
}

// readHash reads the owners in a hash.
func (i *inspection) readHash(replies []rueidis.RedisMessage) error {
	mode, err := replies[asksMode].ToString() // "" for none
	if rueidis.IsRedisNil(err) {
		err = nil
	}
	size, err2 := replies[asksSize].AsInt64()
	page, err3 := replies[asksFields].AsScanEntry()
	if err := cmp.Or(err, err2, err3); err != nil {
		return err
	}
	i.HolderCount = int(size)
	seen := make(map[string]bool) // HSCAN may return a field twice
	if mode != "" {
		i.Kind = KindReadWrite
		i.HolderCount = max(i.HolderCount-1, 0)
		seen["mode"] = true
	} else if size > 0 {
		i.Kind = KindLock
	}
	for fields := page.Elements; len(fields) >= 2; fields = fields[2:] {
		field, value := fields[0], fields[1]
		if seen[field] {
			continue
		}
		seen[field] = true
		if err := i.readField(field, value); err != nil {
			return err
		}
	}
	return nil
}

// readField reads the owner in a field of the hash.
func (i *inspection) readField(field, value string) error {
	count, err := strconv.ParseInt(value, 10, 64)
	if err != nil || !wire.IsOwner(field) {
		return fmt.Errorf("%w: it is a hash with the field %q", wire.ErrWrongType, field)
	}
	if len(i.Holders) < Limit {
		owner, writes := wire.OwnerText(field).CutWrite()
		i.addHolder(owner, Holder{Lease: i.Lease, Count: count, Shared: i.Kind == KindReadWrite && !writes})
	}
	return nil
}

func (i *inspection) readQueue(of rlock.Kind, replies []rueidis.RedisMessage) error {
	waiting, err := replies[0].AsInt64()
	if err != nil || waiting == 0 {
		return err
	}
	members, err := replies[1].AsStrSlice()
	if err != nil {
		return err
	}
	i.Waiting += int(waiting)
	if i.Kind == KindUnknown {
		i.Kind = of
	}
	for _, member := range members {
		if w, ok := parseMember(member); ok && len(i.Queue) < Limit {
			if of != formKinds[semaphoreForm] {
				w.Permits = 0
			}
			i.Queue = append(i.Queue, w)
		}
	}
	return nil
}

// parseMember reads a member of the queue: see queue.lua. ok is false for another text.
func parseMember(member string) (w Waiter, ok bool) {
	if member == "?" {
		return Waiter{Foreign: true}, true
	}
	m, ok := wire.ParseMember(member)
	text, more := m.Ticket.CutMore()
	owner, note := text.CutNote()
	return Waiter{Owner: string(owner), Note: note.Text, Line: note.Line, Since: note.At, Permits: 1 + int(more), Shared: m.Shared, Polls: m.Polls}, ok
}

// locate fills in the processes of the holders and waiters.
func (i *inspection) locate(p *wire.Processes) {
	i.Unresolved = wire.Explain(p.Err)
	for j := range i.Holders {
		i.Holders[j].Process = (*Process)(p.OfOwner(wire.OwnerText(i.Holders[j].Owner)))
	}
	for j := range i.Queue {
		i.Queue[j].Process = (*Process)(p.OfOwner(wire.OwnerText(i.Queue[j].Owner)))
	}
}

// located reports whether the processes of all clients of rlock are known.
func (i *inspection) located() bool {
	return !slices.ContainsFunc(i.Holders, func(h Holder) bool { return h.Process == nil && !h.Foreign }) &&
		!slices.ContainsFunc(i.Queue, func(w Waiter) bool { return w.Process == nil && !w.Foreign })
}
