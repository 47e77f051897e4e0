package redisson

import (
	"context"
	"sync"
	"time"

	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A keeping has the permits that a client holds. It renews the permits of the watchdog, ends a
// permit whose lease ends, and ends all when the client closes. It has no goroutine before the
// first permit.
//
// Its [lease.Keeper] is not the keeper of the client's locks. Package driver sends a batch of
// tenures, polls package core for the command of each, and gives the answers to core. A permit has
// no tenure, and one command renews all permits of a semaphore. A common keeper would save a
// goroutine and the ten lines of start, but driver would have to tell permits from tenures in each
// batch. The rest of this file says when a permit is renewed or ends, which no keeper knows.
type keeping struct {
	once   sync.Once
	keeper *lease.Keeper

	mu     sync.Mutex // guards the fields below; no other mutex is taken under it
	held   map[permitID]*Permit
	closed bool
}

// A permitID names a permit among the permits of all semaphores.
type permitID struct{ key, raw string }

func (p *Permit) id() permitID { return permitID{p.of.key, p.raw} }

// begin begins to keep the permit. It reports false if the client is closed.
func (k *keeping) begin(p *Permit) bool {
	k.once.Do(func() { k.start(p.of.client) })
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return false
	}
	k.held[p.id()] = p
	k.mu.Unlock()
	k.schedule(p)
	return true
}

// schedule sets the time at which the permit is renewed, or ends.
func (k *keeping) schedule(p *Permit) {
	p.mu.Lock()
	at, over, ends := p.renewal(), p.over, p.ends()
	p.mu.Unlock()
	switch {
	case over:
	case ends:
		k.keeper.Schedule(p, at)
	default:
		k.keeper.Stop(p)
	}
	if over || p.isOver() { // the permit has ended meanwhile
		k.keeper.Stop(p)
	}
}

// find returns the permit of this client with that id, or nil.
func (k *keeping) find(key, raw string) *Permit {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held[permitID{key, raw}]
}

// of returns the permits of a semaphore.
func (k *keeping) of(key string) (all []*Permit) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, p := range k.held {
		if id.key == key {
			all = append(all, p)
		}
	}
	return all
}

func (k *keeping) stop(p *Permit) {
	k.mu.Lock()
	_, began := k.held[p.id()]
	delete(k.held, p.id())
	k.mu.Unlock()
	if began {
		k.keeper.Stop(p)
	}
}

// start starts the keeper, until the client is closed.
func (k *keeping) start(c *Client) {
	length := c.shared.Config.Lease
	k.keeper = lease.NewKeeper(lease.Config{Tick: c.shared.Tick, Send: c.renew, MaxBackoff: min(length/10, time.Second)})
	if !c.shared.Redis.Start(func() {
		<-c.shared.Redis.Done()
		k.close()
	}) {
		k.close()
	}
}

// close ends all permits.
func (k *keeping) close() {
	k.mu.Lock()
	k.closed = true
	all := make([]*Permit, 0, len(k.held))
	for _, p := range k.held {
		all = append(all, p)
	}
	k.mu.Unlock()
	for _, p := range all {
		p.end(p.says(rlock.ErrClosed, "the permit is no longer renewed"))
	}
	k.keeper.Close()
}

// Entry implements [lease.Renewable], as Group and Due.
func (p *Permit) Entry() *lease.Entry { return &p.entry }

// Group returns the number of the permit's node.
func (p *Permit) Group() uint32 {
	r := p.of.client.shared.Redis
	if !r.InCluster() {
		return 0
	}
	return r.Nodes.NodeOf(wire.HashSlot(p.of.key))
}

// renewal returns the time of the next renewal, or the end of the validity if the permit is not
// renewed. The caller holds p.mu.
func (p *Permit) renewal() time.Time {
	if p.term.kind != kept {
		return p.until
	}
	length := p.term.lease
	if p.most > 0 {
		length = min(length, p.most)
	}
	return p.until.Add(-2 * length / 3)
}

// Due ends a permit whose validity is over. For any other permit it reports whether the permit is
// to be renewed now; if the renewal fails, the next one follows soon.
func (p *Permit) Due(now time.Time) (send bool) {
	p.mu.Lock()
	over, ends, until, renewal, again := p.over, p.ends(), p.until, p.renewal(), now.Add(p.term.lease/10)
	p.mu.Unlock()
	k := &p.of.client.keeping
	switch {
	case over, !ends:
		return false
	case !now.Before(until):
		p.end(p.ended())
		return false
	case now.Before(renewal):
		k.schedule(p)
		return false
	}
	if again.After(until) {
		again = until
	}
	k.keeper.Schedule(p, again) // a permit that has ended meanwhile is asked once more, and renew skips it
	return true
}

// renew implements [lease.Sender]. It sends one command for all permits of a semaphore.
func (c *Client) renew(_ context.Context, _ uint32, batch []lease.Renewable) (reached bool) {
	type one struct {
		*Permit
		after uint64 // the number of changes before the renewal
	}
	due := make(map[string][]one) // the permits to be renewed, by the key of their semaphore
	for _, item := range batch {
		p := item.(*Permit)
		p.mu.Lock()
		if !p.over && p.term.kind == kept {
			due[p.of.key] = append(due[p.of.key], one{p, p.changes})
		}
		p.mu.Unlock()
	}
	for _, permits := range due {
		ids := make([]string, len(permits))
		for i, p := range permits {
			ids[i] = p.raw
		}
		sent := time.Now()
		held, f, _ := permits[0].of.update(context.Background(), true, longer+milliseconds(c.shared.Config.Lease), ids...)
		reached = reached || f != unknown && f != notNow
		for i, p := range permits {
			switch {
			case len(held) != len(permits): // after an error: Due has scheduled the next renewal
			case held[i]:
				p.renewed(sent, p.after)
			default:
				p.end(p.lost("it is gone from Redis"))
			}
		}
	}
	return reached || len(due) == 0
}
