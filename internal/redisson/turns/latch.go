package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	latchCount  = 10
	awaitOfJava = 300 * time.Millisecond // of a thread that waits for a latch
)

// Turns of a latch: a thread waits for it, counts down, or attempts to set the next count. While the turns end, the operator
// counts down the rest. In Java one thread waits at most: if the message of a new count is lost, Redisson's gate stays open,
// and its await(time) reads the count in a loop, and does not end with its time.
type latchTurns struct {
	*run
	mu        sync.Mutex // protects following
	issued    int        // calls of countDown
	completed int        // those that are over, at least
	last      generation
	shut      time.Time // when the operator last found a count
}

// A generation is a count that was set.
type generation struct {
	number int
	base   int // how many calls were over before
}

func (l *latchTurns) begin(context.Context) error { return nil }

func (l *latchTurns) turn(a *actor) {
	switch choice := a.random.IntN(12); {
	case choice < 4 && (!a.java || a.index == 0):
		l.wait(a)
	case choice < 6:
		l.set(a)
	default:
		l.issue()
		if err := a.now("CountDown").CountDown(object); err != nil {
			l.failed(err)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.completed++
	}
}

func (l *latchTurns) issue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.issued++
}

func (l *latchTurns) set(a *actor) {
	l.mu.Lock()
	base := l.completed
	l.mu.Unlock()
	set, err := a.now("TrySetCount").TrySetCount(object, latchCount)
	if err != nil {
		l.failed(err)
	}
	if set {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.last = generation{l.last.number + 1, base}
	}
}

// wait waits. A latch that opens while less calls than its count have been begun has opened too early.
func (l *latchTurns) wait(a *actor) {
	l.mu.Lock()
	before, asked := l.last, time.Now()
	l.mu.Unlock()
	opened, err := true, error(nil)
	if a.java {
		opened, err = a.now("AwaitFor").AwaitFor(object, awaitOfJava)
	} else {
		err = a.now("Await").Await(object)
	}
	switch {
	case err != nil:
		l.failed(err)
		return
	case !opened:
		l.inVain.Add(1)
		return
	}
	l.mu.Lock()
	issued, shut := l.issued-before.base, l.shut
	early := before.number > 0 && before == l.last && issued < latchCount
	l.mu.Unlock()
	l.waited(a, latest(asked, shut))
	if early {
		l.violated("the latch is open after %d of %d calls", issued, latchCount)
	}
}

// hasten counts the latch down to zero once all other callers have stopped.
func (l *latchTurns) hasten(ctx context.Context) error {
	latch := l.operator.CountDownLatch(object)
	n, err := latch.Count(ctx)
	for ; n > 0 && err == nil; n-- {
		l.issue()
		err = latch.CountDown(ctx)
		l.mu.Lock()
		l.shut = time.Now()
		l.mu.Unlock()
	}
	return err
}

func (l *latchTurns) count(ctx context.Context) error {
	if err := l.hasten(ctx); err != nil {
		return err
	}
	n, err := l.operator.CountDownLatch(object).Count(ctx)
	if err == nil && n != 0 {
		err = fmt.Errorf("the count is %d after all calls", n)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.completed = l.issued
	return err
}

func (l *latchTurns) end(ctx context.Context) error { return l.count(ctx) } // at zero there is no key
