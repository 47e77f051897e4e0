package rlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// Connections are cut, silenced, refused and slow at random, of one client or of all, and
// holders find out by the clock.
func TestFairLocksExcludeEachOtherWhateverTheNetworkDoes(t *testing.T) {
	for seed := range uint64(thorough(2000, 60)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, w *world) {
				r, end := &record{}, time.Now().Add(20*time.Second)
				var clients []*party
				var workers sync.WaitGroup
				for i := range uint64(3) {
					p := w.client(withLease(1500*time.Millisecond), handoff(int(i)%2*3-1, 0))
					clients = append(clients, p)
					for j := range uint64(3) {
						workers.Go(func() { r.atRandom(w, p, rand.New(rand.NewPCG(seed, 10*i+j)), end) })
					}
				}
				trouble(clients, rand.New(rand.NewPCG(seed, 99)), end)
				workers.Wait()

				slices.SortFunc(r.spans, func(a, b span) int { return a.from.Compare(b.from) })
				for i := 1; i < len(r.spans); i++ {
					require.False(t, r.spans[i].from.Before(r.spans[i-1].to), "%v and %v overlap", r.spans[i-1], r.spans[i])
				}
				assert.GreaterOrEqual(t, len(r.spans), 9, "each has had it at the end")
				time.Sleep(time.Minute)
				assert.Empty(t, w.Keys())
				for _, p := range clients {
					assert.NoError(t, p.Close())
				}
			})
		})
	}
}

// atRandom takes the fair lock again and again until the end, for all leases and with
// all patience, and then once more, which it must get.
func (r *record) atRandom(w *world, p *party, random *rand.Rand, end time.Time) {
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	for last := false; !last; time.Sleep(upTo(300 * time.Millisecond)) {
		wait := upTo(3*time.Second) + 1
		if last = !time.Now().Before(end); last {
			wait = time.Minute
		} else if random.IntN(3) == 0 {
			wait = 20 * time.Second
		}
		var options []rlock.AcquireOption
		if random.IntN(2) == 0 {
			options = append(options, rlock.WithLease(100*time.Millisecond+upTo(1500*time.Millisecond)))
		}
		ctx, cancel := context.WithTimeout(w.ctx, wait)
		hold, err := p.NewFairLock(key).Acquire(ctx, options...)
		cancel()
		if err != nil {
			assert.False(w.t, last, "it waits for ever: %v", err)
			continue
		}
		s := span{from: time.Now()}
		select { // while it is held
		case <-hold.Done():
		case <-time.After(upTo(200 * time.Millisecond)):
		}
		s.to = time.Now()
		if until := hold.ValidUntil(); !until.IsZero() && until.Before(s.to) {
			s.to = until
		}
		if s.from.Before(s.to) {
			r.mu.Lock()
			r.spans = append(r.spans, s)
			r.mu.Unlock()
		}
		_ = hold.Release(w.ctx)
	}
}

// trouble breaks the networks of the clients until the end, and heals them.
func trouble(clients []*party, random *rand.Rand, end time.Time) {
	heal := func(n *network.Network) {
		n.Rule(nil)
		n.Deliver()
		n.Heal()
	}
	for time.Now().Before(end) {
		time.Sleep(time.Duration(random.IntN(800)) * time.Millisecond)
		victims, what, roundTrip := clients, random.IntN(8), time.Duration(random.IntN(600))*time.Millisecond
		if random.IntN(3) > 0 {
			one := random.IntN(len(clients))
			victims = clients[one : one+1]
		}
		for _, p := range victims {
			switch what {
			case 0:
				p.net.Cut()
			case 1:
				p.net.Rule(network.Silence)
			case 2:
				p.net.Refuse()
				p.net.Cut()
			case 3:
				p.net.Rule(network.All(network.Drop, network.Push))
			case 4:
				p.net.Rule(network.All(network.Hold, network.Request, "EVALSHA"))
			case 5:
				p.net.SetRoundTrip(roundTrip)
			case 6:
				p.net.SetRoundTrip(0)
			default:
				heal(p.net)
			}
		}
	}
	for _, p := range clients {
		p.net.SetRoundTrip(0)
		heal(p.net)
	}
}
