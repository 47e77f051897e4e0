package programs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/redisson"
)

// The rows of package redisson. Each row has names of its own, so that their numbers are known in
// the end.
func init() {
	wait := func(g *generator, o *Op) {
		o.Ctx = Choice{Name: "timeout", D: some(g, 5*ms, 300*ms, 5*time.Second)}
		o.add(Choice{Name: "n", N: 1 + g.IntN(3)})
		o.add(Choice{Name: "for", D: g.ms(some(g, 20, 500))})
		o.add(Choice{Name: "how", N: g.IntN(6)})
		o.add(Choice{Name: "lease", D: some(g, 0, 0, 100*ms+g.ms(2000))})
	}
	lanes = append(lanes,
		row{"RSemaphore", 5, nil, wait, (*caller).semaphore},
		row{"RPermitExpirableSemaphore", 5, nil, wait, (*caller).permits},
		row{"RCountDownLatch", 3, nil, wait, (*caller).latch},
	)
}

const (
	semaphoreName, semaphorePermits = "xs", 5
	permitsName, permitsOf          = "xp", 3
	changedName                     = "xq"   // another semaphore of permits, whose number changes
	ownName                         = "xown" // begins the names of synchronizers that have a model
)

// counts has two bounds for the number of free permits of the semaphore, since calls without an
// answer may have counted.
type counts struct{ least, most int }

// setPermits sets the numbers.
func (r *Run) setPermits() {
	ctx, cancel := context.WithTimeout(r.ctx, 10*time.Second)
	defer cancel()
	s := r.members[0].Load().sync
	if set, err := on(r.face, s.Semaphore(semaphoreName).TrySetPermits)(ctx, semaphorePermits); (err != nil || !set) && !r.program.World.Outside {
		r.problem("redisson: the permits are not set: %v, %v", set, err)
	}
	if set, err := on(r.face, s.PermitSemaphore(permitsName).TrySetPermits)(ctx, permitsOf); (err != nil || !set) && !r.program.World.Outside {
		r.problem("redisson: the permits are not set: %v, %v", set, err)
	}
	r.counts = counts{semaphorePermits, semaphorePermits}
}

// counted notes that a call has added n, or may have added it.
func (c *caller) counted(verb string, n int, err error, ctx context.Context) {
	r := c.run
	r.face.call(verb)
	r.mu.Lock()
	switch {
	case err == nil:
		r.counts.least, r.counts.most = r.counts.least+n, r.counts.most+n
	case errors.Is(err, rlock.ErrUnconfirmed):
		r.counts.least, r.counts.most = r.counts.least+min(n, 0), r.counts.most+max(n, 0)
	}
	r.mu.Unlock()
	c.judgeQuestion(verb, err, ctx)
}

func (c *caller) semaphore(o *Op) {
	r := c.run
	ctx, cancel := context.WithTimeout(r.ctx, o.Ctx.D)
	defer cancel()
	s, n := on(r.face, c.m.sync.Semaphore)(semaphoreName), o.arg("n").N
	taken := false
	switch o.arg("how").N {
	case 0, 1, 2:
		err := s.Acquire(ctx, n)
		c.counted("redisson.Semaphore.Acquire", -n, err, ctx)
		taken = err == nil
	case 3:
		var err error
		taken, err = s.TryAcquire(ctx, n, o.arg("for").D)
		if taken || err != nil {
			c.counted("redisson.Semaphore.TryAcquire", -n, err, ctx)
		}
	case 4:
		drained, err := s.DrainPermits(ctx)
		if errors.Is(err, rlock.ErrUnconfirmed) {
			drained = semaphorePermits * 2 // the call may have taken all permits
			c.counted("redisson.Semaphore.DrainPermits", -drained, err, ctx)
			return
		}
		c.counted("redisson.Semaphore.DrainPermits", -drained, err, ctx)
		n, taken = drained, err == nil
	case 5:
		c.counted("redisson.Semaphore.AddPermits", 1, s.AddPermits(ctx, 1), ctx)
		c.counted("redisson.Semaphore.AddPermits", -1, s.AddPermits(ctx, -1), ctx)
		_, err := s.AvailablePermits(ctx)
		c.question("redisson.Semaphore.AvailablePermits", err, ctx)
		state, err := c.m.sync.Inspect(ctx, semaphoreName)
		c.question("redisson.Client.Inspect", err, ctx)
		if err == nil && !state.Present && !r.flushed.Load() {
			r.problem("redisson: Inspect shows no number: %+v", state)
		}
		_, err = c.m.sync.Names(ctx, "")
		c.question("redisson.Client.Names", err, ctx)
	}
	if !taken {
		return
	}
	time.Sleep(o.arg("for").D)
	within, cancel2 := context.WithTimeout(r.ctx, 5*time.Second)
	defer cancel2()
	err := s.Release(within, n)
	c.counted("redisson.Semaphore.Release", n, err, within)
	if err != nil && !errors.Is(err, rlock.ErrUnconfirmed) { // only this caller can release them
		r.mu.Lock()
		r.counts.most += n
		r.mu.Unlock()
		if r.healed() && !c.m.closes.Load() {
			r.problem("redisson: Release returns %v", err)
		}
	}
}

func (c *caller) permits(o *Op) {
	r := c.run
	ctx, cancel := context.WithTimeout(r.ctx, o.Ctx.D)
	defer cancel()
	s, lease := on(r.face, c.m.sync.PermitSemaphore)(permitsName), o.arg("lease").D
	if o.arg("how").N == 5 {
		c.changes(ctx, o)
		return
	}
	var p *redisson.Permit
	var err error
	if o.arg("how").N < 3 {
		p, err = s.Acquire(ctx, lease)
		c.question("redisson.PermitSemaphore.Acquire", err, ctx)
	} else {
		p, err = s.TryAcquire(ctx, o.arg("for").D, lease)
		c.question("redisson.PermitSemaphore.TryAcquire", err, ctx)
	}
	if err != nil || p == nil {
		return
	}
	id := on(r.face, p.ID)()
	op := history.Op{
		Method: "redisson.PermitSemaphore.Acquire", Names: []string{permitsName}, Owner: id, Shared: true, Permits: 1, Of: permitsOf,
		Lease: r.program.World.Lease, Kept: true,
	}
	record, since := c.m.recorder.Begin(op), r.now()
	record.End(history.Result{Outcome: history.Acquired})
	defer func() {
		record.Gives(history.Now())
		record.Gave(history.Result{Outcome: history.Unconfirmed})
	}()
	look := func() {
		record.Look(func() history.Belief { return history.Belief{Held: on(r.face, p.Err)() == nil} })
		if before := r.now(); p.Err() == nil {
			if lease > 0 && before > since+lease && o.arg("how").N != 1 && r.ground.Virtual {
				r.problem("redisson: a permit with a lease of %v is valid after %v", lease, before-since)
			}
		}
	}
	look()
	if o.arg("how").N == 1 {
		held, err := s.UpdateLease(ctx, id, 2*time.Second)
		c.question("redisson.PermitSemaphore.UpdateLease", err, ctx)
		if err == nil && !held && p.Err() == nil && !r.program.World.Forgets && lease == 0 {
			r.problem("redisson: the lease of a permit that is held is not updated")
		}
		lease = 2 * time.Second
	}
	select {
	case <-on(r.face, p.Context)().Done():
	case <-time.After(o.arg("for").D):
	}
	look()
	within, cancel2 := context.WithTimeout(r.ctx, 5*time.Second)
	defer cancel2()
	if o.arg("how").N == 2 {
		_, err := s.Release(within, id)
		c.question("redisson.PermitSemaphore.Release", err, within)
		if err == nil {
			return
		} // else the watchdog keeps it
	}
	err = on(r.face, p.Release)(within)
	if p.Context().Err() == nil && err == nil {
		r.problem("redisson: the context of a permit goes on after its release")
	}
	if errors.Is(err, rlock.ErrLost) {
		if r.program.World.Calm && o.arg("lease").D == 0 && o.arg("how").N != 1 {
			r.problem("redisson: a permit is lost, and nothing breaks: %v", err)
		}
		return
	}
	c.judgeQuestion("redisson.Permit.Release", err, within)
}

func (c *caller) changes(ctx context.Context, o *Op) {
	s := c.m.sync.PermitSemaphore(changedName)
	c.question("redisson.PermitSemaphore.SetPermits", s.SetPermits(ctx, 1+o.arg("n").N), ctx)
	c.question("redisson.PermitSemaphore.AddPermits", s.AddPermits(ctx, 1), ctx)
	_, err := s.AvailablePermits(ctx)
	c.question("redisson.PermitSemaphore.AvailablePermits", err, ctx)
	n, err := s.AcquiredPermits(ctx)
	c.question("redisson.PermitSemaphore.AcquiredPermits", err, ctx)
	if err == nil && n != 0 {
		c.run.problem("redisson: %d permits are taken of a semaphore that no call takes them of", n)
	}
}

// latch sets a count, counts it down, and waits for zero by another client.
func (c *caller) latch(o *Op) {
	r := c.run
	ctx, cancel := context.WithTimeout(r.ctx, o.Ctx.D+time.Second)
	defer cancel()
	name, n := fmt.Sprintf("xl%d", o.ID), o.arg("n").N
	here, there := on(r.face, c.m.sync.CountDownLatch)(name), r.members[(c.m.index+1)%len(r.members)].Load().sync.CountDownLatch(name)
	defer r.sweep(name)
	set, err := here.TrySetCount(ctx, int64(n))
	if errors.Is(err, rlock.ErrInvalidName) && r.program.World.Prefix != "" && r.admin[0].Mode() == rueidis.ClientModeCluster {
		return // the braces of the prefix give its channel another slot
	}
	c.question("redisson.CountDownLatch.TrySetCount", err, ctx)
	if err != nil {
		return
	}
	if !set && !r.flushed.Load() {
		r.problem("redisson: the count of a new latch is not set")
	}
	opened, sure := r.now()+forever, true
	awaits := make(chan struct{})
	go func() {
		defer close(awaits)
		err := on(r.face, there.Await)(ctx)
		r.mu.Lock()
		sure := sure && !r.flushed.Load()
		early, late := err == nil && r.now() < opened && sure, err != nil && r.now() > opened+looks && sure && r.program.World.Calm
		r.mu.Unlock()
		if early || late && !errors.Is(err, rlock.ErrClosed) {
			r.problem("redisson: Await of %s returns %v, and the count is zero from %v on", o, err, opened)
		}
	}()
	for i := range n {
		time.Sleep(o.arg("for").D / 4)
		r.mu.Lock()
		if i == n-1 {
			opened = r.now()
		}
		r.mu.Unlock()
		if o.arg("how").N == 0 && i == n-1 {
			deleted, err := here.Delete(ctx)
			c.question("redisson.CountDownLatch.Delete", err, ctx)
			if err == nil && !deleted && sure && !r.flushed.Load() {
				r.problem("redisson: a latch with a count is not deleted")
			}
			break
		}
		err := here.CountDown(ctx)
		c.question("redisson.CountDownLatch.CountDown", err, ctx)
		if err != nil {
			r.mu.Lock()
			sure = false
			r.mu.Unlock()
			break
		}
		left, err := here.Count(ctx)
		c.question("redisson.CountDownLatch.Count", err, ctx)
		if err == nil && left != int64(n-1-i) && sure && !r.flushed.Load() {
			r.problem("redisson: the count is %d after %d of %d", left, i+1, n)
		}
	}
	<-awaits
}

// judgeCounts judges the numbers at the end.
func (r *Run) judgeCounts(ctx context.Context) {
	m := r.members[0].Load()
	if r.flushed.Load() {
		return
	}
	free, err := m.sync.Semaphore(semaphoreName).AvailablePermits(ctx)
	if err != nil || free < r.counts.least || free > r.counts.most {
		r.problem("redisson: %d permits are free (%v), which should be %d to %d", free, err, r.counts.least, r.counts.most)
	}
	if p, err := m.sync.PermitSemaphore(permitsName).TryAcquire(ctx, 0, time.Minute); err == nil && p != nil { // takes back the permits that have ended
		_ = p.Release(ctx)
	}
	if free, err = m.sync.PermitSemaphore(permitsName).AvailablePermits(ctx); err != nil || free != permitsOf {
		r.problem("redisson: %d permits with leases are free (%v) of %d", free, err, permitsOf)
	}
}
