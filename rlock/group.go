package rlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/composite"
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// This file makes parts of multi and red locks from locks of one key, and locks from multi and red
// locks.

// homeOf returns what package composite needs of a client.
func homeOf(e *driver.Client, config Config) *composite.Home {
	together := acquireAll
	if e.Redis.SyncReplicas() > 0 { // each grant waits for replicas on a connection of its own
		together = nil
	}
	return composite.NewHome(composite.Config{
		Redis:    e.Redis,
		ID:       e.ID.Prefix,
		Where:    e.Redis.Where,
		Observer: e.Observer.Observer,
		Later:    e.Observer.Later,
		Logger:   e.Config.Logger,
		LongWait: config.LongWait,
		Site:     e.Site,
		Trouble:  e.TellTrouble,
		Start:    e.Redis.Start,
		Done:     e.Redis.Done(),
		Server:   e.Redis.ServerProcess,
		Longest:  config.LongestLease,
		CheckLease: func(lock string, lease time.Duration) error {
			return e.CheckLease(&driver.Name{Keys: wire.Keys{Key: lock}}, lease)
		},
		AcquireAll: together,
		Losses:     &e.Losses,
		NotHeld: func(name string, o contract.Owner) error {
			return e.NothingToUnlock(name, o, nil, e.Losses.NotHeld())
		},
	})
}

// A single is a lock of one key as package composite knows it.
type single struct {
	*driver.NamedLock
	leaves []composite.Leaf // the leaf of the lock
}

var _ composite.Keyed = single{}

// Name implements [composite.Keyed], as Leaves, Acquire, Holders and ByForce.
func (s single) Name() string { return s.Title() }

func (s single) Leaves() []composite.Leaf { return s.leaves }

func leafOf(c *Client, l *driver.NamedLock) composite.Leaf {
	return composite.Leaf{Name: l.Name.Key, Kind: uint8(l.Name.KindID), Shared: l.Shared, Home: c.groups}
}

func singleOf(c *Client, l *driver.NamedLock) single {
	return single{l, []composite.Leaf{leafOf(c, l)}}
}

func (s single) Acquire(ctx context.Context, o contract.Owner, options composite.Options) (contract.Part, error) {
	h, err := s.Hold(ctx, context.WithoutCancel(ctx), requestFor(o, &options))
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (s single) Holders(ctx context.Context) (holders []composite.Holder, err error) {
	texts, err := s.NamedLock.Holders(ctx)
	for _, text := range texts {
		holders = append(holders, composite.Holder{Owner: text.OwnerID(), Text: text})
	}
	return holders, err
}

func (s single) ByForce(ctx context.Context) (composite.ForceRelease, error) {
	holders, err := s.NamedLock.Holders(ctx)
	return func(ctx context.Context) (bool, error) { return s.ForceUnlockOf(ctx, holders) }, err
}

func requestFor(o contract.Owner, options *composite.Options) driver.Request {
	return driver.Request{
		AcquireOptions: acquireOptions{Lease: options.Lease, Wait: options.Wait, Note: options.Note},
		Owner:          o, Caller: options.Caller, Quit: options.Quit,
		Life: options.Life, Whole: options.Whole, Lost: options.Lost,
	}
}

// acquireAll acquires locks of one key of one client: see [composite.Config].
func acquireAll(ctx context.Context, o contract.Owner, locks []composite.Locker, options []composite.Options) (parts []contract.Part, err error) {
	all, requests := make([]*driver.NamedLock, len(locks)), make([]driver.Request, len(locks))
	for i, l := range locks {
		all[i], requests[i] = l.(single).NamedLock, requestFor(o, &options[i])
	}
	holds, err := driver.HoldAll(ctx, context.WithoutCancel(ctx), all, requests)
	for _, h := range holds {
		parts = append(parts, h)
	}
	return parts, err
}

// part returns the lock as a part of another one, or the reason why it can never be taken.
func (l *Lock) part() (composite.Locker, error) {
	switch f := l.made.(type) {
	case over:
		return f.Lock, f.Err()
	case *driver.NamedLock:
		return singleOf(l.client, f), f.Name.Err
	}
	return nil, fmt.Errorf("rlock: %w: %T is no lock", ErrInvalidConfig, l.made)
}

// An over is a multi or red lock.
type over struct{ *composite.Lock }

var _ form = over{}

// refuses returns the error of a request that a multi or red lock does not serve, or nil.
func (l over) refuses(req *driver.Request) error {
	option := ""
	switch {
	case req.Answer != nil:
		option = "an answer"
	case req.MaxHold != 0:
		option = "WithMaxHold"
	case req.MinHold > 0:
		option = "WithMinHold"
	case req.More != 0:
		option = "WithPermits"
	case req.MaxWaiters != 0:
		option = "WithMaxWaiters"
	case req.Line != "":
		option = "WithLine"
	case req.Progress != nil:
		option = "WithProgress"
	case req.Takeover != 0:
		option = "WithTakeover"
	default:
		return nil
	}
	return fmt.Errorf("rlock: lock %q: %s: %w: it is made of several locks", l.Name(), option, errors.ErrUnsupported)
}

func optionsOf(req *driver.Request) composite.Options {
	return composite.Options{Lease: req.Lease, Wait: req.Wait, Note: req.Note, Caller: req.Caller, Within: req.Within, Again: req.Again, Life: req.Life}
}

// Title implements [form], and so do the methods that follow.
func (l over) Title() string { return l.Name() }

func (l over) Take(ctx context.Context, req driver.Request) error {
	return l.Lock.Take(ctx, req.Owner, optionsOf(&req))
}

func (l over) Hold(ctx, parent context.Context, req driver.Request) (driver.Handle, error) {
	if err := l.refuses(&req); err != nil {
		return nil, err
	}
	h, err := l.Lock.Hold(ctx, parent, req.Owner, optionsOf(&req))
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (l over) Token(contract.Owner) (uint64, error) { return l.Lock.Token() }

// NewMultiLock returns a lock whose holder has all of these locks, of any names, kinds and clients.
// It has no key of its own in Redis.
//
// The parts are taken in one order for all callers, so that two callers cannot deadlock unless they
// hold other locks already. Free parts of one client are taken in one round trip, up to the first
// that is not free. If the wait ends, or a part fails or is lost, all are released; Unlock joins
// the errors of the parts. A fixed lease begins when all parts are taken.
//
// A lock that is given twice counts once. Without locks, with a nil or zero Lock, with two kinds of
// one name, or with one name by two clients of one address, the methods return [ErrInvalidConfig].
// Only fenced parts have tokens.
func NewMultiLock(locks ...*Lock) *Lock {
	var parts []composite.Locker
	for i, l := range locks {
		if l == nil || l.made == nil {
			return &Lock{made: over{composite.Refusing("", fmt.Errorf("rlock: multi-lock: %w: lock %d is nil or a zero value", ErrInvalidConfig, i))}}
		}
		part, err := l.part()
		if err != nil {
			return &Lock{made: over{composite.Refusing("", err)}}
		}
		parts = append(parts, part)
	}
	return &Lock{made: over{composite.NewMulti(parts)}}
}

// NewRedLock returns the lock of that name over independent servers: not nodes of one Cluster or
// Sentinel. Its holder has the lock in most of them, so that it survives the loss of the others.
// docs/kinds.md has the details.
//
// Use an odd number of three or more servers, in the same order in all processes. A nil client
// stands for a server that cannot be reached while the process starts. Without a majority of other
// clients, or with two clients of one address, the methods return [ErrInvalidConfig].
//
// Each grant is judged by its own client. Once no majority is valid, the hold's context ends with
// [ErrLost]. Before that, the watchdog takes a lost part again on a server that has been up for the
// largest Config.LongestLease of the clients, unless INFO is refused, or in a Cluster: with the
// default leases restart the next server 40 s after the last one is back. Restart a server without
// its data only after the longest lease, and at least two seconds: otherwise two clients may hold
// the lock.
//
// Unlock with the same Lock value. A red lock has no fencing token.
func NewRedLock(clients []*Client, name string) *Lock {
	var parts []composite.Keyed
	for i, c := range clients {
		if c == nil {
			continue
		}
		if other := slices.IndexFunc(clients[:i], func(other *Client) bool { return other != nil && c.driver.Redis.Shares(other.driver.Redis) }); other >= 0 {
			return &Lock{made: over{composite.RefusingRed(name, "clients %d and %d have the same server, which would count twice", other, i)}}
		}
		part := driver.NewLock(c.driver, driver.PlainKind, c.inRedis(name))
		if err := part.Name.Err; err != nil {
			return &Lock{made: over{composite.Refusing(name, err)}}
		}
		parts = append(parts, singleOf(c, &part))
	}
	return &Lock{made: over{composite.NewRed(name, parts, len(clients))}}
}
