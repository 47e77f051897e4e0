package redisson

import (
	"context"
	"sync"
	"time"

	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A keeping renews the permits of a client that the watchdog keeps, and ends those whose leases end, and all when the client
// is closed. Its zero value keeps none, and has no goroutine.
type keeping struct {
	once   sync.Once
	keeper *lease.Keeper

	mu     sync.Mutex // protects following
	held   map[*Permit]struct{}
	closed bool
}

// keep begins to keep the permit.
func (k *keeping) keep(p *Permit) {
	k.once.Do(func() { k.start(p.of.client) })
	k.mu.Lock()
	closed := k.closed
	if !closed {
		k.held[p] = struct{}{}
	}
	k.mu.Unlock()
	if closed {
		p.end(p.of.named(wire.ErrClosed))
		return
	}
	p.mu.Lock()
	at := p.renewal(p.until)
	p.mu.Unlock()
	k.keeper.Schedule(p, at)
}

// retry has the permit renewed again after a failure, soon, or ended when its validity is over.
func (k *keeping) retry(p *Permit) {
	at := time.Now().Add(p.length() / 10)
	p.mu.Lock()
	if p.until.Before(at) {
		at = p.until
	}
	p.mu.Unlock()
	k.keeper.Schedule(p, at)
}

func (k *keeping) stop(p *Permit) {
	k.once.Do(func() { k.start(p.of.client) })
	k.keeper.Stop(p)
	k.forget(p)
}

func (k *keeping) forget(p *Permit) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.held, p)
}

// close ends all permits: nothing renews them any more, nor knows when their leases end.
func (k *keeping) close() {
	k.keeper.Close()
	k.mu.Lock()
	held := k.held
	k.held, k.closed = nil, true
	k.mu.Unlock()
	for p := range held {
		p.end(p.of.named(wire.ErrClosed))
	}
}

// start starts the keeper, until the client is closed.
func (k *keeping) start(c *Client) {
	length := c.shared.Config.Lease
	k.held = make(map[*Permit]struct{})
	k.keeper = lease.NewKeeper(lease.Config{Tick: c.shared.Tick, Send: c.renew, MaxBackoff: min(length/10, time.Second)})
	if !c.shared.Redis.Start(func() {
		<-c.shared.Redis.Done()
		k.close()
	}) {
		k.close()
	}
}

// Entry implements [lease.Renewable], as Group and Due.
func (p *Permit) Entry() *lease.Entry { return &p.entry }

// Group is the node.
func (p *Permit) Group() uint32 {
	r := p.of.client.shared.Redis
	if !r.InCluster() {
		return 0
	}
	return r.Nodes.Of(wire.HashSlot(p.of.key))
}

// Due ends a permit whose validity is over, and else asks for its renewal.
func (p *Permit) Due(now time.Time) (send bool) {
	p.mu.Lock()
	over, until := p.over, p.until
	p.mu.Unlock()
	switch {
	case over:
		return false
	case !now.Before(until):
		p.end(p.lost("its lease has ended"))
		return false
	case now.Before(p.renewal(until)):
		p.of.client.keeping.keeper.Schedule(p, p.renewal(until))
		return false
	}
	p.of.client.keeping.keeper.Schedule(p, until)
	return p.lease == 0
}

// renew implements [lease.Sender]: one command for the permits of a semaphore.
func (c *Client) renew(_ context.Context, _ uint32, batch []lease.Renewable) (reached bool) {
	due := make(map[string][]*Permit) // by key
	for _, item := range batch {
		p := item.(*Permit)
		p.mu.Lock()
		if !p.over {
			due[p.of.key] = append(due[p.of.key], p)
		}
		p.mu.Unlock()
	}
	for _, permits := range due {
		ids := make([]string, len(permits))
		for i, p := range permits {
			ids[i] = p.raw
		}
		sent := time.Now()
		held, f, err := permits[0].of.update(context.Background(), permits[0].length(), ids...)
		reached = reached || f != unknown && f != notNow
		for i, p := range permits {
			switch {
			case err != nil || len(held) != len(permits):
				c.keeping.retry(p)
			case held[i]:
				p.confirm(sent)
				c.keeping.keep(p)
			default:
				p.end(p.lost("it is gone from Redis"))
			}
		}
	}
	return reached || len(due) == 0
}
