package redisson

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A PermitSemaphore is Redisson's RPermitExpirableSemaphore: permits with ids and leases. One whose lease has ended is taken
// back by the next call of any client. Its methods may be called concurrently.
//
// The keys are those of Redisson 4.7.0; 3.17.7 has the same without a NameMapper. Ends are by Redis' clock here and by the
// callers' clocks in Java: a Java client whose clock is ahead takes permits back too early.
type PermitSemaphore struct {
	object
	set string
}

// Acquire takes a permit, and waits for it until ctx ends. Without a lease, 0, the watchdog keeps the permit until its
// Release, for [rlock.Config].Lease at a time; with one it ends after that. Callers of this process are served in the order in
// which they came. A lost answer is asked for again, with the same id: that takes no second permit. Then, if ctx ends,
// the error is [rlock.ErrUnconfirmed], and the permit, if it is taken, ends with its lease.
func (s *PermitSemaphore) Acquire(ctx context.Context, lease time.Duration) (*Permit, error) {
	return s.acquire(ctx, -1, lease)
}

// TryAcquire is Acquire for at most the wait, 0 for one attempt. It returns nil if no permit was free.
func (s *PermitSemaphore) TryAcquire(ctx context.Context, wait, lease time.Duration) (*Permit, error) {
	return s.acquire(ctx, max(wait, 0), lease)
}

func (s *PermitSemaphore) acquire(ctx context.Context, wait, lease time.Duration) (*Permit, error) {
	p, err := s.newPermit(lease)
	if err != nil {
		return nil, err
	}
	var lost error // the last attempt's, if it had no answer
	got, err := s.wait(ctx, wait, true, func(ctx context.Context) (bool, time.Duration, fate, error) {
		sent := time.Now()
		n, f, err := s.askFirst(ctx, lost == nil, permitsAcquire, milliseconds(p.length()), p.raw)
		if lost = nil; f == unknown {
			lost, f = err, notNow // with that id it takes no second permit
		}
		if f != executed || err != nil {
			return false, 0, f, err
		}
		if n < 0 {
			p.begin(sent)
			return true, 0, f, nil
		}
		return false, time.Duration(n) * time.Millisecond, f, nil
	})
	switch {
	case got:
		return p, nil
	case lost != nil:
		err = lost
	}
	p.end(err)
	return nil, err
}

// Release gives the permit of that id back, which any client may have taken, and reports whether it was held: not if it had
// ended, or was released. After [rlock.ErrUnconfirmed] it may be released; to release it again does no harm.
func (s *PermitSemaphore) Release(ctx context.Context, id string) (bool, error) {
	raw, err := s.parse(id)
	if err != nil {
		return false, err
	}
	n, _, err := s.ask(ctx, permitsRelease, raw)
	return n > 0, err
}

// UpdateLease gives the permit of that id a lease that begins now, 0 for one without an end, and reports whether it is held.
func (s *PermitSemaphore) UpdateLease(ctx context.Context, id string, lease time.Duration) (bool, error) {
	raw, err := s.parse(id)
	if err == nil {
		err = s.checkLease(lease)
	}
	if err != nil {
		return false, err
	}
	held, _, err := s.update(ctx, lease, raw)
	return len(held) > 0 && held[0], err
}

// update gives permits a lease, and returns which of them are held.
func (s *PermitSemaphore) update(ctx context.Context, lease time.Duration, ids ...string) (held []bool, f fate, err error) {
	reply, f, err := s.call(ctx, permitsUpdate, s.keys(), append([]string{byPublish, milliseconds(lease)}, ids...)...)
	if err != nil {
		return nil, f, err
	}
	numbers, err := reply.AsIntSlice()
	for _, n := range numbers {
		held = append(held, n == 1)
	}
	return held, f, err
}

// AvailablePermits returns how many permits are free, which may be less than 0.
func (s *PermitSemaphore) AvailablePermits(ctx context.Context) (int, error) {
	free, _, err := s.counts(ctx)
	return free, err
}

// AcquiredPermits returns how many permits are taken.
func (s *PermitSemaphore) AcquiredPermits(ctx context.Context) (int, error) {
	_, taken, err := s.counts(ctx)
	return taken, err
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
	return int(numbers[0]), int(numbers[1]), nil
}

// TrySetPermits sets the number of free permits if there is none, and reports whether it did.
func (s *PermitSemaphore) TrySetPermits(ctx context.Context, n int) (bool, error) {
	return (&Semaphore{s.object}).TrySetPermits(ctx, n)
}

// SetPermits sets how many permits there are, with those that are taken. If more are taken, none is free until enough are
// released. It may be sent again.
func (s *PermitSemaphore) SetPermits(ctx context.Context, n int) error {
	if n < 0 || n > math.MaxInt32 {
		return s.named(fmt.Errorf("%w: %d permits: use 0 to %d", rlock.ErrInvalidConfig, n, math.MaxInt32))
	}
	_, _, err := s.ask(ctx, permitsSet, strconv.Itoa(n))
	return err
}

// AddPermits changes how many permits there are by n, which may be negative. After [rlock.ErrUnconfirmed] it may have.
func (s *PermitSemaphore) AddPermits(ctx context.Context, n int) error {
	return (&Semaphore{s.object}).AddPermits(ctx, n)
}

func (s *PermitSemaphore) keys() []string { return []string{s.set, s.channel} }

// ask executes a script of permits that replies with an integer.
func (s *PermitSemaphore) ask(ctx context.Context, script *wire.Script, args ...string) (n int64, f fate, err error) {
	return s.askFirst(ctx, true, script, args...)
}

// askFirst is ask; it is not the first call if one with the same ids, whose answer was lost, may still be executed.
func (s *PermitSemaphore) askFirst(ctx context.Context, first bool, script *wire.Script, args ...string) (n int64, f fate, err error) {
	keys, args := append([]string{s.key}, s.keys()...), append([]string{byPublish}, args...)
	reply, f, err := s.send(ctx, wire.Call{Script: script, Keys: keys, Args: args}, first)
	if err != nil {
		return 0, f, err
	}
	if n, err = reply.AsInt64(); err != nil {
		return 0, refused, s.named(err)
	}
	return n, f, nil
}

func (s *PermitSemaphore) checkLease(lease time.Duration) error {
	if lease != 0 && lease < time.Millisecond {
		return s.named(fmt.Errorf("%w of %v: use at least 1 ms, or 0", rlock.ErrInvalidLease, lease))
	}
	return nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// newID returns the id of a permit, of 16 bytes as Redisson's: the first eight are the client's, by which its process is
// found, and the others are random.
func (c *Client) newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // does not fail
	_, _ = hex.Decode(id[:8], []byte(strings.ReplaceAll(c.shared.ID.Prefix, "-", "")))
	return string(id[:])
}

func (s *PermitSemaphore) parse(id string) (raw string, err error) {
	b, err := hex.DecodeString(id)
	if err != nil || len(b) == 0 {
		return "", s.named(fmt.Errorf("%w: %q is no id of a permit", rlock.ErrInvalidConfig, id))
	}
	return string(b), nil
}
