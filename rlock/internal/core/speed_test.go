package core

import (
	"fmt"
	"testing"
)

// newHeld returns a lock that is held, with so many waiters behind the holder.
func newHeld(waiters int, k Kind) (*Lock, []*Call) {
	c := &Client{Config: Config{Lease: 30e9, Claim: 2e9, QueueTime: 60e9, LookTime: 2e9, Retry: 1e7, MaxRetry: 5e8, Patience: 25e7, HandoffLimit: 100, HandoffTime: 1e7}}
	l := c.NewLock(k)
	all := make([]*Call, waiters+1)
	for i := range all {
		all[i] = &Call{Owner: OwnerID(i + 1), Waits: true, Until: Never}
		l.BeginLock(all[i], Now{})
		if i == 0 {
			cmd := l.Command(all[0], l.Next(all[0], true, Now{}).Op, Now{})
			l.Answer(&cmd, nil, Reply{Found: Holds}, Now{})
		}
	}
	c.TakeEffects(Now{})
	return l, all
}

// handOff releases the lock for the next waiter, and has the one that held it wait again.
func handOff(l *Lock, all []*Call, i int) {
	w := all[i%len(all)]
	l.Unlock(w.Owner, Alone, nil, Now{})
	l.BeginLock(w, Now{})
	l.client.TakeEffects(Now{})
}

func TestNestingAndHandingOffAllocateNothing(t *testing.T) {
	l, all := newHeld(100, Kind{})
	i := 0
	if n := testing.AllocsPerRun(1000, func() { handOff(l, all, i); i++ }); n > 0 {
		t.Errorf("a hand-off allocates %v times", n)
	}
	l, _ = newHeld(0, Kind{})
	w := &Call{Owner: 1, Until: Never}
	if n := testing.AllocsPerRun(1000, func() {
		l.BeginLock(w, Now{})
		l.Unlock(1, Alone, nil, Now{})
		l.client.TakeEffects(Now{})
	}); n > 0 {
		t.Errorf("a nested lock allocates %v times", n)
	}
	c := &Client{Config: l.client.Config}
	l = c.NewLock(Kind{})
	var releases Call
	if n := testing.AllocsPerRun(1000, func() { pair(l, w, &releases) }); n > 0 {
		t.Errorf("an uncontended lock allocates %v times", n)
	}
}

// pair takes and frees a lock that no other client wants.
func pair(l *Lock, w, releases *Call) {
	*w = Call{Owner: 1, Waits: true, Until: Never}
	l.BeginLock(w, Now{})
	cmd := l.Command(w, l.Next(w, true, Now{}).Op, Now{})
	l.Answer(&cmd, nil, Reply{Found: Holds}, Now{})
	l.Next(w, false, Now{})
	l.client.TakeEffects(Now{})
	_, t, _ := l.Unlock(1, Alone, nil, Now{})
	*releases = Call{Until: Never}
	l.BeginRelease(t, releases)
	cmd = l.Command(releases, l.Next(releases, true, Now{}).Op, Now{})
	l.Answer(&cmd, releases, Reply{Left: true}, Now{})
	l.Next(releases, false, Now{})
	l.client.TakeEffects(Now{})
	l.client.TakeEffects(Now{})
}

func BenchmarkHandoff(b *testing.B) {
	for _, n := range []int{10, 10_000, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l, all := newHeld(n, Kind{})
			for i := range b.N {
				handOff(l, all, i)
			}
		})
	}
}

// A strict lock of many waiters: a ticket is granted, and the next one is released.
func BenchmarkStrict(b *testing.B) {
	for _, n := range []int{10, 10_000, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l, all := newHeld(n, Kind{Strict: true})
			l.Subscribed(true, Now{})
			queues := func(w *Call) {
				cmd := l.Command(w, l.Next(w, true, Now{}).Op, Now{})
				l.Answer(&cmd, nil, Reply{Found: Waits, Holder: ID{N: 1}, TTL: 30e9}, Now{})
			}
			for _, w := range all[1:] {
				queues(w)
			}
			l.client.TakeEffects(Now{})
			b.ResetTimer()
			for i := range b.N {
				w := all[i%len(all)]
				_, t, _ := l.Unlock(w.Owner, Alone, nil, Now{})
				cmd, _ := l.Poll(t, Now{})
				l.Answer(&cmd, nil, Reply{Left: true}, Now{})
				l.client.TakeEffects(Now{})
				l.BeginLock(w, Now{})
				queues(w)
				l.Hear(Message{Kind: Granted, ID: all[(i+1)%len(all)].Tenure.ID}, Now{})
				l.client.TakeEffects(Now{})
			}
		})
	}
}

func BenchmarkNested(b *testing.B) {
	l, _ := newHeld(0, Kind{})
	w := &Call{Owner: 1, Until: Never}
	for range b.N {
		l.BeginLock(w, Now{})
		l.Unlock(1, Alone, nil, Now{})
		l.client.TakeEffects(Now{})
	}
}

func BenchmarkUncontended(b *testing.B) {
	c := &Client{Config: Config{Lease: 30e9, Claim: 2e9, QueueTime: 60e9}}
	l, w, releases := c.NewLock(Kind{}), &Call{}, &Call{}
	for range b.N {
		pair(l, w, releases)
	}
}

// A renewal of each of many locks, hot and cold.
func BenchmarkRenewal(b *testing.B) {
	for _, n := range []int{10, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			locks := make([]*Lock, n)
			for i := range locks {
				locks[i], _ = newHeld(0, Kind{})
			}
			b.ResetTimer()
			now := Now{}
			for i := range b.N {
				if i%n == 0 {
					now.Time, now.Safe = now.Time+10e9, now.Safe+10e9
				}
				l := locks[i%n]
				cmd, _ := l.Poll(l.held, now)
				if cmd.Op != Mirror {
					b.Fatal(cmd.Op)
				}
				l.Answer(&cmd, nil, Reply{Found: Holds}, now)
				l.client.TakeEffects(Now{})
			}
		})
	}
}
