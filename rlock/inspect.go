package rlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/engine"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// InspectLimit is how many holders, and how many waiters, an [Inspection] shows at most.
const InspectLimit = 1000

// An Inspection is the state of a lock in Redis at one moment.
type Inspection struct {
	Name string
	Kind Kind

	// Holders are empty if the lock is free. There are several only of a read lock and of
	// a semaphore.
	// HolderCount is more than their number if there are more than InspectLimit.
	Holders     []Holder
	HolderCount int

	// Lease is the time left of the lease unless it is renewed: 0 if the lock is free, -1 ns if
	// its key does not expire. Of readers, and of a semaphore, it is the longest lease.
	Lease time.Duration

	// Token is the last fencing token that was reserved; tokens are reserved in blocks, so
	// the holder's may be smaller. 0: no fenced lock had this name, or the user may not
	// read the counter.
	Token uint64

	// Queue is the waiters, the first to be granted the lock first: one for each client
	// that waits, however many of its goroutines do. Of a fair lock and of a semaphore it is
	// one for each waiter.
	// Waiting is more than their number if there are more than InspectLimit.
	Queue   []Waiter
	Waiting int

	// Guests is how many clients of Redisson are subscribed to the lock's channel, to wait
	// for it. -1 if that cannot be counted: in a Cluster with plain pub/sub, or without the
	// right to.
	Guests int

	// Unresolved says why no Process is known, nil if CLIENT LIST was answered. It is
	// [ErrNoPermission] if the user may not execute that command.
	Unresolved error
}

// A Holder is one owner that holds a lock.
type Holder struct {
	Owner   string        // "<uuid>:<id>", as it stands in Redis
	Lease   time.Duration // the rest of the lock's lease; of a semaphore, of the holder's own
	Count   int64         // how many levels deep it holds the lock, as last mirrored
	Shared  bool          // it is a reader
	Guest   bool          // it is no client of this package, but one of Redisson, or an unknown one
	Process *Process      // nil if it is not known
}

// A Waiter is one place in the queue.
type Waiter struct {
	Owner   string   // "<uuid>:<id>" of the owner that will hold the lock; "" for a turn of guests
	Shared  bool     // it waits for the read lock
	Polls   bool     // it is not subscribed, and looks whether it is its turn
	Guest   bool     // it is a turn that is left to clients of Redisson
	Process *Process // nil if it is not known
}

// Inspect returns the state in Redis of the lock of that name, of any kind. It only
// reads: it may be called for any lock, and changes nothing. It needs one round trip, and
// one more on a connection of its own if there is a holder or a waiter whose process is to
// be found. The list of processes may be a second old.
//
// The commands of the first round trip are executed one after the other and are no
// transaction: a lock that is handed over meanwhile may be shown with its last holder and
// the queue of the next moment.
//
// It fails with [ErrWrongType] if the name's key, or that of its queue, is something other
// than a lock, [ErrNoPermission] without [the rights], [ErrInvalidName], [ErrClosed], and
// the error of ctx or of the connection. A failure to find out processes, guests or tokens
// is no error.
//
// [the rights]: https://github.com/go-rlock/rlock/blob/main/docs/operations.md#rights
func (c *Client) Inspect(ctx context.Context, name string) (Inspection, error) {
	var names [len(layouts)]*engine.Name
	for i, l := range layouts {
		names[i] = c.engine.NewName(l.id, name)
	}
	plain := names[0]
	if plain.Err != nil {
		return Inspection{}, plain.Err
	}
	i := Inspection{Name: name, Guests: -1}
	replies, err := c.engine.Redis.Survey(ctx, plain.Slot, func() []rueidis.Completed { return c.questions(names) })
	if err == nil {
		err = i.read(replies, names)
	}
	if err != nil {
		return Inspection{}, fmt.Errorf("rlock: inspect %q: %w", name, err)
	}
	// In a Cluster with plain pub/sub no node knows all subscribers.
	if c.engine.Redis.Counts() {
		i.readGuests(replies[asksGuests])
	}
	if i.HolderCount+i.Waiting > 0 {
		i.resolve(c.engine.Redis.Processes(ctx, &plain.Keys))
	}
	return i, nil
}

// The replies to the questions, by their place.
const (
	asksLease = iota
	asksMode
	asksSize
	asksFields
	asksToken
	asksGuests
	asksCount   // of a semaphore: how many owners
	asksPermits // and those with the longest leases
	asksClock
	asksQueues // of each of the layouts: the number of tickets, and the first of them
)

// layouts are the kinds that have a queue of their own. A fenced lock has the names of a
// plain one, and a counter.
var layouts = [...]struct {
	id   engine.KindID
	kind Kind
}{{engine.FencedKind, KindLock}, {engine.ReadWriteKind, KindReadWrite}, {engine.SemaphoreKind, KindSemaphore}}

// questions are the commands of an inspection.
func (c *Client) questions(names [len(layouts)]*engine.Name) []rueidis.Completed {
	plain, rw := names[0], names[1]
	ask := func(key string, words ...string) rueidis.Completed {
		return c.engine.Redis.Arbitrary(key, words...)
	}
	limit := strconv.Itoa(InspectLimit)
	count := "NUMSUB"
	if c.engine.Redis.Sharded {
		count = "SHARDNUMSUB"
	}
	asked := []rueidis.Completed{
		asksLease:   ask(plain.Key, "PTTL"),
		asksMode:    ask(plain.Key, "HGET", "mode"),
		asksSize:    ask(plain.Key, "HLEN"),
		asksFields:  ask(plain.Key, "HSCAN", "0", "COUNT", limit),
		asksToken:   ask(plain.Extra, "GET"),
		asksGuests:  c.engine.Redis.Client.B().Arbitrary("PUBSUB", count, plain.Channel, plain.Ushers(), rw.Channel, rw.Ushers()).Build(),
		asksCount:   ask(plain.Key, "ZCOUNT", "-inf", "+inf"),
		asksPermits: ask(plain.Key, "ZRANGE", "-"+limit, "-1", "WITHSCORES"),
		asksClock:   c.engine.Redis.Client.B().Time().Build(),
	}
	for _, n := range names {
		asked = append(asked, ask(n.Queue, "ZCOUNT", "1", "+inf"), ask(n.Queue, "ZRANGEBYSCORE", "1", "+inf", "LIMIT", "0", limit))
	}
	return asked
}

// read reads the replies, but for the guests.
func (i *Inspection) read(replies []rueidis.RedisResult, names [len(layouts)]*engine.Name) error {
	if err := i.readLease(replies[asksLease]); err != nil {
		return wire.Explain(err)
	}
	if err := i.readHolders(replies); err != nil {
		return wire.Explain(err)
	}
	for layout, n := range names {
		if err := i.readQueue(layouts[layout].kind, replies[asksQueues+2*layout:]); err != nil {
			return fmt.Errorf("queue %s: %w", n.Queue, wire.Explain(err))
		}
	}
	if token, err := replies[asksToken].AsInt64(); err == nil && token > 0 {
		i.Token = uint64(token)
	}
	return nil
}

// readHolders has the owners in a hash, or in the sorted set of a semaphore.
func (i *Inspection) readHolders(replies []rueidis.RedisResult) error {
	err := i.readHash(replies)
	if !errors.Is(wire.Explain(err), ErrWrongType) {
		return err
	}
	permits, failed := engine.PermitsOf(replies[asksPermits], replies[asksClock])
	switch {
	case failed == nil:
		count, _ := replies[asksCount].AsInt64()
		return i.readPermits(permits, int(count))
	case errors.Is(wire.Explain(failed), ErrWrongType):
		return err
	}
	return failed
}

// readGuests counts them, if Redis could.
func (i *Inspection) readGuests(reply rueidis.RedisResult) {
	counts, err := reply.ToArray()
	if err != nil {
		return
	}
	i.Guests = 0
	for ; len(counts) >= 4; counts = counts[4:] { // a channel and its number, then that of the ushers
		listeners, _ := counts[1].AsInt64()
		ushers, _ := counts[3].AsInt64()
		i.Guests += int(max(listeners-ushers, 0))
	}
}

func (i *Inspection) readLease(reply rueidis.RedisResult) error {
	left, err := reply.AsInt64()
	switch {
	case left == -1:
		i.Lease = -1
	case left >= 0:
		i.Lease = wire.Milliseconds(left)
	}
	return err
}

// readPermits has the owners of a semaphore. Its key may be there although no permit is held.
// Of count owners those beyond the limit are not known to hold theirs still.
func (i *Inspection) readPermits(permits []engine.Permit, count int) error {
	i.Kind, i.HolderCount = KindSemaphore, len(permits)+max(count-InspectLimit, 0)
	i.Lease = 0
	for _, p := range permits {
		if !wire.IsOwner(p.Owner) {
			return fmt.Errorf("%w: it is a sorted set with the member %q", ErrWrongType, p.Owner)
		}
		i.Lease = max(i.Lease, p.Left)
		i.Holders = append(i.Holders, Holder{Owner: p.Owner, Count: 1, Lease: p.Left, Guest: !wire.IsOurs(p.Owner)})
	}
	return nil
}

// readHash has the owners in a hash.
func (i *Inspection) readHash(replies []rueidis.RedisResult) error {
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
		if err := i.addHolder(field, value); err != nil {
			return err
		}
	}
	return nil
}

// addHolder has the owner in a field of the hash.
func (i *Inspection) addHolder(field, value string) error {
	count, err := strconv.ParseInt(value, 10, 64)
	if err != nil || !wire.IsOwner(field) {
		return fmt.Errorf("%w: it is a hash with the field %q", ErrWrongType, field)
	}
	if len(i.Holders) < InspectLimit {
		owner, writes := strings.CutSuffix(field, ":write")
		reads := i.Kind == KindReadWrite && !writes
		i.Holders = append(i.Holders, Holder{Owner: owner, Lease: i.Lease, Count: count, Shared: reads, Guest: !wire.IsOurs(field)})
	}
	return nil
}

func (i *Inspection) readQueue(kind Kind, replies []rueidis.RedisResult) error {
	waiting, err := replies[0].AsInt64()
	members, err2 := replies[1].AsStrSlice()
	if err := cmp.Or(err, err2); err != nil {
		return err
	}
	i.Waiting += int(waiting)
	if waiting > 0 && i.Kind == KindUnknown {
		i.Kind = kind
	}
	for _, member := range members {
		if w, ok := parseMember(member); ok && len(i.Queue) < InspectLimit {
			i.Queue = append(i.Queue, w)
		}
	}
	return nil
}

// parseMember reads a member of the queue: see queue.lua.
func parseMember(member string) (w Waiter, ok bool) {
	if member == "?" {
		return Waiter{Guest: true}, true
	}
	if len(member) < 2 || !strings.ContainsRune("xsXS", rune(member[0])) {
		return Waiter{}, false
	}
	mode := member[0]
	return Waiter{Owner: member[1:], Shared: mode == 's' || mode == 'S', Polls: mode < 'a'}, true
}

// resolve finds the processes of holders and waiters.
func (i *Inspection) resolve(r *wire.Roll) {
	i.Unresolved = wire.Explain(r.Err)
	for at := range i.Holders {
		i.Holders[at].Process = process(r, i.Holders[at].Owner)
	}
	for at := range i.Queue {
		i.Queue[at].Process = process(r, i.Queue[at].Owner)
	}
}

// A Process is one that has a client of this package, as the client name of its
// connection says: "rlock:<program>:<host>:<pid>:<id>", with the [Client.ID] at the end.
// [Config.NoClientName] omits the name.
type Process struct {
	Program string // the base name of its file
	Host    string // its own name for its machine, or container
	PID     int    // as the process itself sees it
	Addr    string // where its connection comes from, as Redis sees it: "10.0.0.7:51234"
}

// process returns the process that has the client of an owner, nil if it is not known.
func process(r *wire.Roll, owner string) *Process { return (*Process)(r.Of(owner)) }
