package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// A check takes a plain lock of a name that no other check has, and releases it: the commands of a
// Lock and its Unlock, in one pipeline. So each server refuses it for the same reasons.

// checkPrefix begins the name of the lock of a check, behind the prefix of the client's names.
const checkPrefix = "rlock_check:"

// mostCheckLease is the longest lease of the lock of a check, by whose end a lock that was not
// released is gone. WAIT takes at most a quarter of the lease, as for a grant: see doReplicated.
const mostCheckLease = 4 * syncTime

// A check is one of the locks that a check takes, and its two commands.
type check struct {
	keys           Keys
	acquire, leave Exchange
}

// CheckLocks takes and releases a lock whose name begins with prefix, in a Cluster one lock on each
// primary that may have such names, all at the same time. It returns the first error, and returns
// early if ctx ends or the client closes.
func (r *Redis) CheckLocks(ctx context.Context, prefix string, id *ID) error {
	if err := r.Ready(ctx, nil); err != nil {
		return fmt.Errorf("not connected: %w", Explain(err))
	}
	all, err := r.newChecks(prefix, id)
	if err != nil {
		return err
	}
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	failed := make([]error, len(all))
	var running sync.WaitGroup
	for i, c := range all {
		running.Go(func() { failed[i] = r.probePromptly(within, c) })
	}
	running.Wait()
	switch err := cmp.Or(failed...); {
	case err == nil:
		return nil
	case r.Stopped():
		return ErrClosed
	case ctx.Err() != nil && !Answered(err):
		return TimeUp(ctx, ErrNoAnswer)
	default:
		return err
	}
}

// probeAnew is probe, but repeats it over a new connection if the old one has ended, which says
// nothing about the server.
func (r *Redis) probeAnew(ctx context.Context, c *check) error {
	err := r.probe(ctx, c)
	if d, why := Diagnose(err); err != nil && d == Unknown && !errors.Is(why, ErrNoAnswer) {
		err = r.probe(ctx, c)
	}
	return Explain(err)
}

// probe takes and releases the lock of the check on its node.
func (r *Redis) probe(ctx context.Context, c *check) error {
	leave := r.callFor(&c.leave)
	if r.options.SyncReplicas > 0 {
		r.doReplicated(ctx, &c.acquire)
		if err := c.acquire.Answer.Err; err != nil {
			return err
		}
		c.leave.Answer = readAnswer(r, &c.leave, r.Do(ctx, leave))
		return c.leave.Answer.Err
	}
	replies, _ := r.DoAll(ctx, []Call{r.callFor(&c.acquire), leave})
	c.acquire.Answer = readAnswer(r, &c.acquire, replies[0])
	c.leave.Answer = readAnswer(r, &c.leave, replies[1])
	if c.acquire.Answer.Found == core.Holds && c.leave.Answer.Err == nil && !c.leave.Answer.Left {
		c.leave.Answer = readAnswer(r, &c.leave, r.Do(ctx, leave)) // the server, which did not know the script of the acquire, executed the release before the acquire was sent again
	}
	return cmp.Or(c.acquire.Answer.Err, c.leave.Answer.Err)
}

// probePromptly is probeAnew, but returns once ctx ends.
func (r *Redis) probePromptly(ctx context.Context, c *check) error {
	_, err := Promptly(ctx, r, c.keys.Slot, func(ctx context.Context) (none struct{}, err error) { return none, r.probeAnew(ctx, c) })
	if err != nil && r.InCluster() {
		return fmt.Errorf("slot %d of %s: %w", c.keys.Slot, cmp.Or(r.Nodes.addressOf(c.keys.Slot), "no known node"), err)
	}
	return err
}

// newChecks returns the locks of a check. Names drawn at random cover the nodes of a Cluster; a
// node with few slots may be left out.
func (r *Redis) newChecks(prefix string, id *ID) (all []*check, err error) {
	nodes := r.Nodes.primaries()
	oneSlot := !r.InCluster() || tagOf(prefix) != prefix
	covered := make(map[uint32]bool, nodes)
	for range slots {
		text := id.Text(id.Number(), 1)
		name := prefix + checkPrefix + text.UUID()
		if node := r.Nodes.NodeOf(r.SlotOf(name)); !covered[node] {
			covered[node] = true
			c, err := r.newCheck(name, text)
			if err != nil {
				return nil, err
			}
			all = append(all, c)
		}
		if oneSlot || len(all) == nodes {
			break
		}
	}
	return all, nil
}

// newCheck returns the check with the lock of that name, for the owner with that text.
func (r *Redis) newCheck(name string, text OwnerText) (c *check, err error) {
	c = new(check)
	if c.keys, err = r.KeysOf(name, Plain.Layout, r.prefix); err != nil {
		return nil, err
	}
	lease := core.Span(min(r.options.Lease, mostCheckLease))
	c.acquire = Exchange{Cmd: core.Command{Op: core.Acquire, Lease: lease}, Keys: &c.keys, Kind: Plain, Text: text}
	c.leave = Exchange{Cmd: core.Command{Op: core.Leave}, Keys: &c.keys, Kind: Plain, Text: text}
	return c, nil
}
