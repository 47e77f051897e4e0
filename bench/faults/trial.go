package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/internal/network"
)

// An operation is the part of a lock's life in which a command is met by a fault.
type operation string

const (
	locking   operation = "lock"
	unlocking operation = "unlock"
	renewal   operation = "renewal"
	waiting   operation = "wait"
)

var operations = []operation{locking, unlocking, renewal, waiting}

// A fault is the fate of a command.
type fault string

const (
	none        fault = "no fault"
	requestLost fault = "request lost"  // the connection ends before it is executed
	replyLost   fault = "reply lost"    // the connection ends after it was executed
	doubled     fault = "doubled"       // it is executed again, 50 ms later
	afterwards  fault = "after it"      // it is executed again after the section, when the lock is free
	leaseLater  fault = "a lease later" // the same, a lease after that
	late        fault = "late"          // it is executed 700 ms later. A lock that is free is given 400 ms
)

var faults = []fault{none, requestLost, replyLost, doubled, afterwards, leaseLater, late}

const (
	delay    = 700 * time.Millisecond
	patience = 400 * time.Millisecond // of a caller whose command is late
	settled  = 200 * time.Millisecond // after which a key in Redis counts as left
	grace    = 4 * time.Second        // beyond a lease: a call that has not ended by then waits for ever
)

// An outcome is what followed.
type outcome struct {
	Library   string
	Operation operation
	Fault     fault
	Nth       int           // command of the operation
	Met       bool          // there was such a command
	Failed    bool          // the caller was told an error
	Twice     bool          // another was granted the lock while the caller had it, and its release was no error
	Forever   bool          // the caller, or the next one, had not got the lock a lease and grace later
	Left      time.Duration // how long the next caller waited for a lock that no caller had
	Problem   string        // of the trial itself
}

// A trial is one case.
type trial struct {
	*outcome
	addr  string
	lease time.Duration
	made  library
	pairs *pairs

	net   *network.Network
	raw   rueidis.Client // sends commands again
	armed atomic.Bool
	count int // of commands since; the network's mutex protects it
	met   atomic.Bool
	again atomic.Pointer[[]string] // the command that is to be executed again, nil for none
	a, b  contender.Mutex
}

// setUp is what a client sends before it locks.
var setUp = []string{"hello", "client", "ping", "info", "command", "cluster", "auth", "select", "script", "quit", "role", "exec", "multi"}

// rule lets the fault meet the nth command after the trial was armed.
func (t *trial) rule(f network.Frame) network.Fate {
	stage := network.Request
	if t.Fault == replyLost {
		stage = network.Reply
	}
	if f.Stage != stage || len(f.Args) == 0 || !t.armed.Load() || slices.Contains(setUp, strings.ToLower(f.Args[0])) {
		return network.Pass
	}
	if t.count++; t.count != t.Nth || t.Fault == none {
		return network.Pass
	}
	t.met.Store(true)
	switch t.Fault {
	case doubled, afterwards, leaseLater:
		if !strings.Contains(strings.ToLower(f.Args[0]), "subscribe") {
			again := slices.Clone(f.Args)
			t.again.Store(&again)
		}
		if t.Fault == doubled {
			time.AfterFunc(50*time.Millisecond, t.repeat)
		}
		return network.Pass
	case late:
		time.AfterFunc(delay, func() {
			t.armed.Store(false)
			t.net.Deliver()
		})
		return network.Hold
	}
	return network.Cut
}

func (t *trial) play(ctx context.Context) {
	one, err := t.pairs.take(t.made)
	if err != nil {
		t.Problem = err.Error()
		return
	}
	defer func() { t.pairs.put(t.made, one, t.Forever) }()
	if err := t.prepare(ctx, one); err != nil {
		t.Problem = err.Error()
		return
	}
	defer t.raw.Close()
	limit, cancel := context.WithTimeout(ctx, 3*t.lease+3*grace)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.steps(limit)
	}()
	select {
	case <-done:
	case <-time.After(3*t.lease + 4*grace): // a library that does not heed a context
		t.Forever = true
	}
	t.Met = t.met.Load() || t.Fault == none
}

// prepare lets each client lock once, so that connections and scripts are there.
func (t *trial) prepare(ctx context.Context, one *pair) (err error) {
	t.net = one.net
	name := fmt.Sprintf("resend:%s:%s:%s:%d", t.Library, t.Operation, t.Fault, t.Nth)
	for _, side := range []struct {
		client contender.Client
		mutex  *contender.Mutex
	}{{one.behind, &t.a}, {one.with, &t.b}} {
		warm := side.client.Mutex(name + ":warm")
		if err := errors.Join(warm.Lock(ctx), warm.Unlock()); err != nil {
			return err
		}
		*side.mutex = side.client.Mutex(name)
	}
	if t.raw, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{t.addr}, DisableCache: true, ForceSingleClient: true}); err != nil {
		return err
	}
	t.net.Rule(t.rule)
	return nil
}

// steps plays the case. A caller's call is with the fault, and the other's are without.
func (t *trial) steps(ctx context.Context) {
	if t.Operation == waiting {
		locked := make(chan error, 1)
		released := make(chan struct{})
		go func() { // its owner is the goroutine
			defer close(released)
			err := t.b.Lock(ctx)
			locked <- err
			time.Sleep(3 * settled)
			if err == nil {
				_ = t.b.Unlock()
			}
		}()
		if err := <-locked; err != nil {
			t.Problem = err.Error()
			return
		}
		defer func() { <-released }()
	}
	t.arm(t.Operation == locking || t.Operation == waiting)
	call, cancel := context.WithCancel(ctx) // which lasts as long as the hold: rueidislock wants that
	defer cancel()
	limit := time.AfterFunc(t.time(), cancel)
	began := time.Now()
	err := t.a.Lock(call)
	limit.Stop()
	if t.Operation == locking {
		t.arm(false) // the next commands are those of the hold
	}
	switch {
	case err == nil:
		t.hold(ctx)
	case time.Since(began) >= t.lease+grace:
		t.Forever = true
	default:
		t.Failed = true
	}
	if t.Fault == late {
		time.Sleep(delay) // the command is executed by then
	}
	time.Sleep(settled)
	if t.Fault == leaseLater {
		time.Sleep(t.lease)
	}
	if t.Fault == afterwards || t.Fault == leaseLater {
		t.arm(false)
		t.repeat()
	}
	t.next(ctx)
}

// repeat executes the command again that was met, if it was.
func (t *trial) repeat() {
	if again := t.again.Load(); again != nil {
		_ = t.raw.Do(context.Background(), t.raw.B().Arbitrary(*again...).Build()).Error()
	}
}

// arm lets the fault meet the next commands, or none.
func (t *trial) arm(on bool) { t.armed.Store(on) }

// time is how long the caller waits for the lock.
func (t *trial) time() time.Duration {
	if t.Fault == late && t.Operation == locking {
		return patience
	}
	return t.lease + grace
}

// hold is the time of the hold, and the release.
func (t *trial) hold(ctx context.Context) {
	if t.Operation == renewal {
		t.arm(true)
		time.Sleep(t.lease * 3 / 2)
	}
	if t.Operation != unlocking {
		time.Sleep(settled)
	}
	taken := t.take(ctx)
	t.arm(t.Operation == unlocking)
	err := t.a.Unlock()
	t.Failed = t.Failed || err != nil
	if taken {
		t.Twice = err == nil
		_ = t.b.Unlock()
	}
	if t.Operation != unlocking {
		return
	}
	time.Sleep(settled)
	t.arm(false)
}

// take tries to get the lock beside its holder, and reports whether it did.
func (t *trial) take(ctx context.Context) bool {
	if tries, ok := t.b.(contender.Trier); ok {
		taken, err := tries.TryLock(ctx)
		return taken && err == nil
	}
	ctx, cancel := context.WithTimeout(ctx, settled)
	defer cancel()
	return t.b.Lock(ctx) == nil
}

// next is how long another waits for a lock that no caller has.
func (t *trial) next(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, t.lease+grace)
	defer cancel()
	began := time.Now()
	if err := t.b.Lock(call); err != nil {
		t.Forever = true
		return
	}
	t.Left = time.Since(began)
	_ = t.b.Unlock()
}
