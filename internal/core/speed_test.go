package core

import (
	"fmt"
	"testing"
)

// newHeld returns a lock that is held, with so many waiters behind the holder.
func newHeld(waiters int, k Kind) (*Lock, []*Waiter) {
	c := &Client{Config: Config{Lease: 30e9, Claim: 2e9, QueueTime: 60e9, LookTime: 2e9, Retry: 1e7, MaxRetry: 5e8, Patience: 25e7, HandoffLimit: 100, HandoffTime: 1e7}}
	l := c.NewLock(k)
	all := make([]*Waiter, waiters+1)
	for i := range all {
		all[i] = &Waiter{Owner: OwnerID(i + 1), Waits: true, Until: Never}
		l.Lock(all[i], Now{})
		if i == 0 {
			cmd, _ := l.Poll(all[0].Ticket, Now{})
			l.Answer(&cmd, Reply{Found: Holds}, Now{})
		}
	}
	c.TakeEffects()
	return l, all
}

// handOff releases the lock for the next waiter, and has the one that held it wait again.
func handOff(l *Lock, all []*Waiter, i int) {
	w := all[i%len(all)]
	l.Unlock(w.Owner, Alone, nil, Now{})
	l.Lock(w, Now{})
	l.client.TakeEffects()
}

func TestNestingAndHandingOffAllocateNothing(t *testing.T) {
	l, all := newHeld(100, Kind{})
	i := 0
	if n := testing.AllocsPerRun(1000, func() { handOff(l, all, i); i++ }); n > 0 {
		t.Errorf("a hand-off allocates %v times", n)
	}
	l, _ = newHeld(0, Kind{})
	w := &Waiter{Owner: 1, Until: Never}
	if n := testing.AllocsPerRun(1000, func() {
		l.Lock(w, Now{})
		l.Unlock(1, Alone, nil, Now{})
		l.client.TakeEffects()
	}); n > 0 {
		t.Errorf("a nested lock allocates %v times", n)
	}
	c := &Client{Config: l.client.Config}
	l = c.NewLock(Kind{})
	if n := testing.AllocsPerRun(1000, func() { pair(l, w) }); n > 0 {
		t.Errorf("an uncontended lock allocates %v times", n)
	}
}

// pair takes and frees a lock that no other client wants.
func pair(l *Lock, w *Waiter) {
	*w = Waiter{Owner: 1, Waits: true, Until: Never}
	l.Lock(w, Now{})
	cmd, _ := l.Poll(w.Ticket, Now{})
	l.Answer(&cmd, Reply{Found: Holds}, Now{})
	_, t, _ := l.Unlock(1, Alone, nil, Now{})
	cmd, _ = l.Poll(t, Now{})
	l.Answer(&cmd, Reply{Left: true}, Now{})
	for _, e := range l.client.TakeEffects() {
		if e.Kind == Poll && e.Tenure != nil {
			l.Poll(e.Tenure, Now{})
		}
	}
	l.client.TakeEffects()
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
			l.Listening(true, Now{})
			for t := range l.Tenures {
				if cmd, _ := l.Poll(t, Now{}); cmd.Op == Join {
					l.Answer(&cmd, Reply{Found: Waits, Holder: ID{N: 1}, TTL: 30e9}, Now{})
				}
			}
			l.client.TakeEffects()
			b.ResetTimer()
			for i := range b.N {
				w := all[i%len(all)]
				_, t, _ := l.Unlock(w.Owner, Alone, nil, Now{})
				cmd, _ := l.Poll(t, Now{})
				l.Answer(&cmd, Reply{Left: true}, Now{})
				l.Poll(t, Now{})
				l.Lock(w, Now{})
				cmd, _ = l.Poll(w.Ticket, Now{})
				l.Answer(&cmd, Reply{Found: Waits, Holder: ID{N: 1}, TTL: 30e9}, Now{})
				l.Hear(Message{Kind: Granted, ID: all[(i+1)%len(all)].Ticket.ID}, Now{})
				l.client.TakeEffects()
			}
		})
	}
}

func BenchmarkNested(b *testing.B) {
	l, _ := newHeld(0, Kind{})
	w := &Waiter{Owner: 1, Until: Never}
	for range b.N {
		l.Lock(w, Now{})
		l.Unlock(1, Alone, nil, Now{})
		l.client.TakeEffects()
	}
}

func BenchmarkUncontended(b *testing.B) {
	c := &Client{Config: Config{Lease: 30e9, Claim: 2e9, QueueTime: 60e9}}
	l, w := c.NewLock(Kind{}), &Waiter{}
	for range b.N {
		pair(l, w)
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
				cmd, _ := l.Poll(l.owner, now)
				if cmd.Op != Mirror {
					b.Fatal(cmd.Op)
				}
				l.Answer(&cmd, Reply{Found: Holds}, now)
				l.client.TakeEffects()
			}
		})
	}
}
