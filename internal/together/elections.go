package together

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/elect"
)

// Package elect.
func init() {
	lanes = append(lanes, row{"elect", 4, nil, func(g *generator, o *Op) {
		o.Ctx = Choice{Name: "timeout", D: some(g, 100*ms, time.Second, 5*time.Second)}
		o.add(Choice{Name: "for", D: g.ms(some(g, 20, 1500))})
		o.add(Choice{Name: "work", S: some(g, "returns", "waits", "waits", "fails", "overruns")})
		o.add(Choice{Name: "how", N: g.IntN(5)})
	}, (*caller).elect})
}

// leaders is the lock of the election.
const leaders = "e"

func (m *member) joinElection() {
	m.run.face.call("elect.New")
	m.run.face.call("elect.WithText")
	m.run.face.call("elect.WithOverrun")
	m.candidate = elect.New(m.main(), leaders, elect.WithText(m.name), elect.WithOverrun(func() { m.run.face.call("overrun") }))
}

func (c *caller) elect(o *Op) {
	r, m := c.run, c.m
	ctx, cancel := context.WithTimeout(r.ctx, o.Ctx.D)
	defer cancel()
	switch o.arg("how").N {
	case 0:
		r.face.call("elect.Candidate.Leader")
		_, err := m.candidate.Leader(ctx)
		if errors.Is(err, elect.ErrNoLeader) {
			r.face.call("elect.ErrNoLeader")
			return
		}
		c.judgeQuestion("elect.Candidate.Leader", err, ctx)
		return
	case 1:
		r.face.call("elect.Candidate.Observe")
		err := m.candidate.Observe(ctx, func(leader string) {
			if leader == "" {
				r.problem("elect: Observe tells of a leader without a text")
			}
		})
		c.judgeQuestion("elect.Candidate.Observe", err, ctx)
		return
	case 2:
		r.face.call("elect.Candidate.Do")
		err := m.candidate.Do(ctx, func(ctx context.Context) error {
			if t := m.candidate.Term(); t == nil && ctx.Err() == nil {
				time.Sleep(ms) // it may have ended at this moment
				if ctx.Err() == nil {
					r.problem("elect: work is done without a term")
				}
			}
			return nil
		})
		if errors.Is(err, elect.ErrNotLeader) {
			r.face.call("elect.ErrNotLeader")
		} else if err != nil {
			r.problem("elect: Do returns %v", err)
		}
		return
	}
	failure := errors.New("the leader fails")
	r.face.call("elect.Candidate.Run")
	terms := 0
	err := m.candidate.Run(ctx, func(ctx context.Context, term *rlock.Hold) error {
		terms++
		op := history.Op{
			Worker: c.lane, Method: history.Acquire, Name: leaders, Owner: fmt.Sprintf("%s#%d.%d", m.name, o.ID, terms),
			Lease: r.program.World.Lease, Kept: true,
		}
		token, _ := term.Token()
		leads := m.recorder.Begin(op)
		leads.End(history.Result{Outcome: history.Acquired, Token: token, Until: history.At(term.ValidUntil())})
		defer func() {
			op.Method = history.Release
			m.recorder.Begin(op).End(history.Result{Outcome: history.Unconfirmed}) // it is released when this has returned
		}()
		look := func() {
			leads.Look(func() history.Belief {
				until := term.ValidUntil()
				return history.Belief{Held: !until.IsZero(), Until: history.At(until)}
			})
			if term.Valid() {
				r.face.call("elect.Candidate.Term")
				if m.candidate.Term() == nil && ctx.Err() == nil {
					r.problem("elect: there is no term while its hold is valid")
				}
			}
		}
		look()
		wait := time.After(o.arg("for").D)
		select {
		case <-wait:
		case <-ctx.Done():
		}
		look()
		switch o.arg("work").S {
		case "fails":
			return failure
		case "waits":
			<-ctx.Done()
			look()
			return ctx.Err()
		case "overruns":
			<-ctx.Done()
			time.Sleep(r.program.World.Lease)
			look()
			return ctx.Err()
		}
		return nil
	})
	switch {
	case errors.Is(err, elect.ErrRunning):
		r.face.call("elect.ErrRunning")
	case errors.Is(err, failure):
		if o.arg("work").S != "fails" {
			r.problem("elect: Run returns the error of another one's work")
		}
	default:
		c.judgeQuestion("elect.Candidate.Run", err, ctx)
	}
	if err == nil && ctx.Err() == nil && (terms == 0 || o.arg("work").S != "returns") {
		r.problem("elect: Run of %s returns without an error after %d terms, before its context ends", o, terms)
	}
}
