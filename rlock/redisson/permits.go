package redisson

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A PermitSemaphore is Redisson's RPermitExpirableSemaphore: permits with ids and leases. The next
// call of any client takes back the permits whose leases have ended. Its methods may be called
// concurrently.
//
// The keys are as in Redisson 4.7.0; 3.17.7 has the same keys without a NameMapper. Leases end by
// Redis' clock here, and by the callers' clocks in Java: a Java client whose clock is ahead takes
// permits back too early.
type PermitSemaphore struct {
	object
	set string // the key of the set of permits that are taken
}

// Acquire takes a permit, and waits for it until ctx ends. If lease is 0 the watchdog keeps the
// permit until its Release, for [rlock.Config].Lease at a time; else the permit ends after the
// lease. Callers of this process are served in the order in which they came. After a lost answer
// the command is sent again, with the same id, which takes no second permit. If ctx ends by then,
// the error is [rlock.ErrUnconfirmed], and the permit, if it is taken, ends with its lease.
func (s *PermitSemaphore) Acquire(ctx context.Context, lease time.Duration) (*Permit, error) {
	return first(s.acquire(ctx, 1, -1, lease))
}

// TryAcquire is Acquire with a limit on the wait; 0 makes one attempt. It returns nil if no permit
// was free.
func (s *PermitSemaphore) TryAcquire(ctx context.Context, wait, lease time.Duration) (*Permit, error) {
	return first(s.acquire(ctx, 1, max(wait, 0), lease))
}

// AcquireN is Acquire for n permits, all or none, each with an id and a lease of its own. n = 0
// takes none, and n < 0, or above 10 000, is [rlock.ErrInvalidConfig].
func (s *PermitSemaphore) AcquireN(ctx context.Context, n int, lease time.Duration) ([]*Permit, error) {
	return s.acquire(ctx, n, -1, lease)
}

// TryAcquireN is AcquireN with a limit on the wait; 0 makes one attempt. It returns nil if fewer
// permits were free.
func (s *PermitSemaphore) TryAcquireN(ctx context.Context, n int, wait, lease time.Duration) ([]*Permit, error) {
	return s.acquire(ctx, n, max(wait, 0), lease)
}

func first(permits []*Permit, err error) (*Permit, error) {
	if len(permits) == 0 {
		return nil, err
	}
	return permits[0], err
}

// mostAtOnce is the largest number of permits that one call takes. Redis executes nothing else
// meanwhile: 10 000 permits keep it busy for some tenths of a second.
const mostAtOnce = 10_000

func (s *PermitSemaphore) acquire(ctx context.Context, n int, wait, lease time.Duration) ([]*Permit, error) {
	t, err := s.term(lease)
	if err == nil {
		err = s.checkNumber(n, mostAtOnce)
	}
	if err != nil || n == 0 {
		return nil, err
	}
	permits, args := make([]*Permit, n), []string{milliseconds(t.lease)}
	for i := range permits {
		permits[i] = s.newPermit(t)
		args = append(args, permits[i].raw)
	}
	var lost error // the error of the last attempt, if it has no answer
	got, err := s.wait(ctx, wait, true, func(ctx context.Context, _ look) (bool, time.Duration, fate, error) {
		sent := time.Now()
		n, f, err := s.askFirst(ctx, lost == nil, permitsAcquire, args...)
		if lost = nil; f == unknown {
			lost, f = err, notNow // the same id takes no second permit
		}
		if f != executed || err != nil {
			return false, 0, f, err
		}
		if n >= 0 {
			return false, time.Duration(n) * time.Millisecond, f, nil
		}
		for _, p := range permits {
			if !p.begin(sent) {
				return false, 0, refused, s.named(rlock.ErrClosed) // a permit that was taken after all ends with its lease
			}
		}
		return true, 0, f, nil
	})
	switch {
	case got:
		return permits, nil
	case lost != nil:
		return nil, lost
	}
	return nil, err // close has ended those of the permits that had begun
}

// Release gives back the permit with that id, which any client may have taken. It reports whether
// the permit was held; it was not if it had ended, or was released. A [Permit] of this Client with
// that id ends at once. After a lost answer the command is sent again; if the permit is gone by
// then, it counts as held before. If Redis does not answer for some seconds the error is
// [rlock.ErrUnconfirmed]; releasing the permit again does no harm.
func (s *PermitSemaphore) Release(ctx context.Context, id string) (bool, error) {
	n, err := s.ReleaseAll(ctx, id)
	return n > 0, err
}

// ReleaseAll is Release for several permits, in one step. It returns the number of permits that
// were held. Permits that were not held do not keep the others from being released, as they do in
// Redisson.
func (s *PermitSemaphore) ReleaseAll(ctx context.Context, ids ...string) (int, error) {
	raws := make([]string, len(ids))
	for i, id := range ids {
		raw, err := s.parse(id)
		if err != nil {
			return 0, err
		}
		raws[i] = raw
	}
	slices.Sort(raws)
	if raws = slices.Compact(raws); len(raws) == 0 {
		return 0, nil
	}
	return s.release(ctx, raws...)
}

// release gives back different permits, and first ends the Permits of this client among them. If
// Redis does not answer, the release is repeated in the background until the leases of these
// Permits would end.
func (s *PermitSemaphore) release(ctx context.Context, raws ...string) (n int, err error) {
	var longest time.Duration // the longest lease of the Permits of this client
	for _, raw := range raws {
		if p := s.client.keeping.find(s.key, raw); p != nil {
			longest = max(longest, p.lasts())
			p.end(p.says(rlock.ErrNotHeld, "it was released"))
		}
	}
	r := s.client.shared.Redis
	release := func(ctx context.Context, first bool) (int64, fate, error) {
		s.noteRelease()
		reply, f, err := s.sendKeys(ctx, first, permitsRelease, raws...)
		if err != nil {
			s.client.turns.noEcho(s.channel)
			return 0, f, err
		}
		numbers, err := reply.AsIntSlice()
		if err != nil || len(numbers) != 2 {
			return 0, refused, s.named(cmp.Or(err, errors.New("an answer of another form")))
		}
		s.leaveTurn(numbers[1])
		return numbers[0], f, nil
	}
	held, f, lost, err := s.repeat(ctx, r.Patience, release)
	switch {
	case err == nil && lost:
		return len(raws), nil
	case longest == 0, f != notNow && f != unknown:
		return int(held), err
	}
	if r.Start(func() {
		_, _, _, _ = s.repeat(context.Background(), longest, func(ctx context.Context, _ bool) (int64, fate, error) {
			return release(ctx, false)
		})
	}) && !errors.Is(err, rlock.ErrUnconfirmed) {
		err = fmt.Errorf("%w: %w", rlock.ErrUnconfirmed, err)
	}
	return 0, err
}

// UpdateLease gives the permit with that id a lease that begins now, or no end if lease is 0, and
// reports whether the permit is held. A [Permit] of this Client with that id has the new lease from
// then on, and the watchdog does not renew it. After a lost answer the command is sent again. After
// [rlock.ErrUnconfirmed] Redis may have either lease, and the Permit counts as held for the shorter
// one.
func (s *PermitSemaphore) UpdateLease(ctx context.Context, id string, lease time.Duration) (bool, error) {
	raw, err := s.parse(id)
	if err == nil {
		err = s.checkLease(lease)
	}
	if err != nil {
		return false, err
	}
	if p := s.client.keeping.find(s.key, raw); p != nil {
		to := term{fixed, lease}
		if lease == 0 {
			to.kind = endless
		}
		return p.change(ctx, to)
	}
	held, _, _, err := s.updateOne(ctx, raw, lease)
	return held, err
}

// updateOne gives a permit a lease. It reports whether the permit is held. sent is the time at
// which the answered command was sent; unsure is set if an earlier command may be executed late.
func (s *PermitSemaphore) updateOne(ctx context.Context, raw string, lease time.Duration) (held bool, sent time.Time, unsure bool, err error) {
	n, _, unsure, err := s.repeat(ctx, s.client.shared.Redis.Patience, func(ctx context.Context, first bool) (int64, fate, error) {
		sent = time.Now()
		all, f, err := s.update(ctx, first, milliseconds(lease), raw)
		if len(all) == 1 && all[0] {
			return 1, f, err
		}
		return 0, f, err
	})
	return n == 1, sent, unsure, err
}

// longer is a prefix of a lease: the script lengthens leases only.
const longer = "+"

// update gives permits a lease, and returns which of them are held; nil after an error.
func (s *PermitSemaphore) update(ctx context.Context, first bool, lease string, ids ...string) (held []bool, f fate, err error) {
	reply, f, err := s.sendKeys(ctx, first, permitsUpdate, append([]string{lease}, ids...)...)
	if err != nil {
		return nil, f, err
	}
	numbers, err := reply.AsIntSlice()
	for _, n := range numbers {
		held = append(held, n == 1)
	}
	return held, f, err
}

// AvailablePermits returns the number of free permits, which may be negative.
func (s *PermitSemaphore) AvailablePermits(ctx context.Context) (int, error) {
	free, _, err := s.counts(ctx)
	return free, err
}

// AcquiredPermits returns the number of permits taken.
func (s *PermitSemaphore) AcquiredPermits(ctx context.Context) (int, error) {
	_, taken, err := s.counts(ctx)
	return taken, err
}

// Permits returns the number of permits, free or taken. If the key of the semaphore is gone, taken
// permits still count.
func (s *PermitSemaphore) Permits(ctx context.Context) (int, error) {
	free, taken, err := s.counts(ctx)
	return free + taken, err
}

// Lease returns the rest of the lease of the permit with that id, or [rlock.NoExpiry] for a permit
// without an end. It returns [rlock.ErrNotHeld] if the permit is not held.
func (s *PermitSemaphore) Lease(ctx context.Context, id string) (time.Duration, error) {
	raw, err := s.parse(id)
	if err != nil {
		return 0, err
	}
	left, _, err := s.ask(ctx, permitsLease, raw)
	switch {
	case err != nil:
		return 0, err
	case left == 0:
		return 0, s.named(fmt.Errorf("permit %s: %w", id, rlock.ErrNotHeld))
	case left < 0:
		return rlock.NoExpiry, nil
	}
	return wire.Milliseconds(left), nil
}

// Delete deletes the semaphore with all its permits, free or taken, and reports whether there was
// one. The Permits of this Client end at once. Permits of other processes are lost; these processes
// notice it like a release by another process. No waiter wakes.
func (s *PermitSemaphore) Delete(ctx context.Context) (bool, error) {
	for _, p := range s.client.keeping.of(s.key) {
		p.end(p.lost("its semaphore was deleted"))
	}
	n, _, err := s.ask(ctx, permitsDelete)
	return n == 1, err
}

// Expire makes Redis delete the semaphore with all its permits, free or taken, after that time; 0
// removes the expiry. It reports whether there is a semaphore. Redis notifies no client of the
// deletion: a [Permit] notices it by its next renewal, or by its Release.
func (s *PermitSemaphore) Expire(ctx context.Context, after time.Duration) (bool, error) {
	if err := s.checkLease(after); err != nil {
		return false, err
	}
	n, _, err := s.ask(ctx, permitsExpire, milliseconds(after))
	return n == 1, err
}

func (s *PermitSemaphore) counts(ctx context.Context) (free, taken int, err error) {
	reply, _, err := s.call(ctx, permitsRead, s.keys(), byPublish)
	if err != nil {
		return 0, 0, err
	}
	numbers, err := reply.AsIntSlice()
	if err == nil && len(numbers) != 2 {
		err = fmt.Errorf("%d numbers, not 2", len(numbers))
	}
	if err != nil {
		return 0, 0, s.named(err)
	}
	return int(numbers[0]), int(numbers[1]), s.believe(ctx, 0)
}

// TrySetPermits sets the number of free permits if there is none, and reports whether it did.
func (s *PermitSemaphore) TrySetPermits(ctx context.Context, n int) (bool, error) {
	return (&Semaphore{s.object}).TrySetPermits(ctx, n)
}

// SetPermits sets the number of permits, free or taken. If more are taken, none is free until
// enough of them are released. The command may be sent again.
func (s *PermitSemaphore) SetPermits(ctx context.Context, n int) error {
	if err := s.checkNumber(n, math.MaxInt32); err != nil {
		return err
	}
	_, _, err := s.ask(ctx, permitsSet, strconv.Itoa(n))
	return err
}

// AddPermits adds n, which may be negative, to the number of permits. After [rlock.ErrUnconfirmed]
// n may have been added.
func (s *PermitSemaphore) AddPermits(ctx context.Context, n int) error {
	return (&Semaphore{s.object}).AddPermits(ctx, n)
}

func (s *PermitSemaphore) keys() []string { return []string{s.set, s.channel} }

// ask executes a script of permits that replies with an integer.
func (s *PermitSemaphore) ask(ctx context.Context, script *wire.Script, args ...string) (n int64, f fate, err error) {
	if n, f, err = s.askFirst(ctx, true, script, args...); err == nil {
		err = s.believe(ctx, n)
	}
	return n, f, err
}

// askFirst is ask. If first is false, a call with the same ids, whose answer was lost, may still be
// executed.
func (s *PermitSemaphore) askFirst(ctx context.Context, first bool, script *wire.Script, args ...string) (n int64, f fate, err error) {
	reply, f, err := s.sendKeys(ctx, first, script, args...)
	if err != nil {
		return 0, f, err
	}
	if n, err = reply.AsInt64(); err != nil {
		return 0, refused, s.named(err)
	}
	return n, f, nil
}

// sendKeys sends a script of permits.
func (s *PermitSemaphore) sendKeys(ctx context.Context, first bool, script *wire.Script, args ...string) (rueidis.RedisMessage, fate, error) {
	keys, args := append([]string{s.key}, s.keys()...), append([]string{byPublish}, args...)
	return s.send(ctx, wire.Call{Script: script, Keys: keys, Args: args}, first)
}

func (o *object) checkLease(lease time.Duration) error {
	if lease != 0 && lease < time.Millisecond {
		return o.named(fmt.Errorf("%w of %v: use at least 1 ms, or 0", rlock.ErrInvalidLease, lease))
	}
	return nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// newID returns the id of a permit, of 16 bytes like Redisson's. The first eight bytes are the
// client's, by which its process is found; the others are random.
func (c *Client) newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // does not fail
	_, _ = hex.Decode(id[:8], []byte(strings.ReplaceAll(c.shared.ID.Prefix, "-", "")))
	return string(id[:])
}

func (s *PermitSemaphore) parse(id string) (raw string, err error) {
	b, err := hex.DecodeString(id)
	if err != nil || len(b) == 0 {
		return "", s.named(fmt.Errorf("%w: %.64q is no id of a permit", rlock.ErrInvalidConfig, id))
	}
	return string(b), nil
}
