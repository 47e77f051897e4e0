package driver

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
	"github.com/go-rlock/rlock/rlock/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A lone caller that waits sends its commands over a connection of its own, where no goroutine
// stands between it and the socket: but none that may overtake another command of its ticket. The
// fake wire asserts the latter.
func TestTheCommandsOfATicketMayBeSentDirectly(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		here, there := f.join(nil), f.join(nil)
		h, l := holds(t, there.lock()), here.lock()
		sent := len(f.direct())
		o, got := takes(t.Context(), l)
		synctest.Wait()
		require.NoError(t, h.Release(t.Context()))
		require.NoError(t, <-got)
		require.NoError(t, l.Unlock(t.Context(), o))
		assert.Equal(t, []core.Op{core.Acquire, core.Join, core.Leave, core.Leave}, f.direct()[sent:])
		f.isClean()
	})
	for _, op := range []core.Op{core.Join, core.Look} { // is left behind
		for _, fate := range []fate{held, late} {
			bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
				here, there := f.join(nil), f.join(nil)
				h := holds(t, there.lock())
				f.onOp(op, fate)
				ctx, leave := context.WithCancel(t.Context())
				_, result := takes(ctx, here.lock())
				time.Sleep(3 * time.Second)
				sent, leaves := len(f.direct()), f.count(core.Leave)
				leave()
				require.ErrorIs(t, <-result, context.Canceled)
				synctest.Wait()
				assert.Greater(t, f.count(core.Leave), leaves)
				assert.Empty(t, f.direct()[sent:])
				f.deliver(-1)
				time.Sleep(time.Minute)
				require.NoError(t, h.Release(t.Context()))
				f.isClean()
			})
		}
	}
}

// A ticket passes to the next caller when its caller leaves a command behind. The command keeps its
// slot for as long as it may stand in rueidis' ring, and not for as long as the ticket waits: else
// such tickets could have all slots, and none could look.
func TestATicketThatIsPassedOnKeepsNoSlot(t *testing.T) {
	for _, crowded := range []bool{false, true} {
		bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
			here, there := f.join(nil), f.join(nil)
			holds(t, there.lock())
			slots := &here.wire.(*fakeWire).all.Asks
			ctx, leave := context.WithCancel(t.Context())
			_, left := takes(ctx, here.lock())
			synctest.Wait()
			o, got := takes(t.Context(), here.lock())
			f.gives(held, core.Look)
			time.Sleep(3 * time.Second)
			for ok := crowded; ok; { // until there is no slot for another look
				_, ok = slots.TryEnter()
			}
			f.gives(passes) // the next look
			leave()
			require.ErrorIs(t, <-left, context.Canceled)
			synctest.Wait()
			if !crowded {
				assert.Zero(t, slots.Count(), "the next look was answered")
			}
			f.mu.Lock()
			f.server.Holders = nil // no message tells of it
			f.mu.Unlock()
			time.Sleep(10 * time.Second)
			select {
			case err := <-got:
				require.NoError(t, err)
				require.NoError(t, here.lock().Unlock(t.Context(), o))
			default:
				t.Error("the ticket does not look")
			}
			f.deliver(-1)
		})
	}
}

// The clock of a slot that an answer has freed does not free the next slot that the tenure keeps:
//
//	a command is left behind    its slot is kept until the clock goes off
//	a later one is answered     the slot is freed
//	a third is left behind      its slot is kept until its own clock goes off
func TestAKeptSlotIsFreedByItsOwnClock(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		c := f.join(nil)
		req := request(contract.NewHandleOwner())
		req.Lease = time.Hour // no renewal is answered meanwhile
		h, err := c.lock().Hold(t.Context(), t.Context(), req)
		require.NoError(t, err)
		time.Sleep(time.Second)
		slots := &c.wire.(*fakeWire).all.Asks
		land := func(a wire.Answer) {
			limit, ok := slots.TryEnter()
			require.True(t, ok)
			l, _ := c.enterIfAny(c.lock().Name, 0)
			l.freeSlot(&exchange{Exchange: wire.Exchange{Answer: a}, work: l.shard.workOf(l, l.Held()), slot: limit}, true)
			l.shard.unlock()
		}
		behind := wire.Answer{Reply: core.Reply{Fault: core.Behind}, Err: context.Canceled}
		land(behind)
		first := c.deadline()
		time.Sleep(2 * time.Second) // a deadline is shared for a second
		land(wire.Answer{Heard: true})
		assert.Zero(t, slots.Count())
		land(behind)
		second := c.deadline()
		<-first.Done()
		synctest.Wait()
		assert.EqualValues(t, 1, slots.Count())
		<-second.Done()
		synctest.Wait()
		assert.Zero(t, slots.Count())
		require.NoError(t, h.Release(t.Context()))
	})
}

// While the connection for subscriptions is lost a ticket would be granted unheard: a waiter that
// comes meanwhile takes none before the subscription is confirmed again, or the client has waited
// for that for long enough.
func TestAWaiterTakesNoTicketWhileTheSubscriptionIsLost(t *testing.T) {
	bubbleOf(t, FairKind, func(t *testing.T, f *fake) {
		here, there := f.join(nil), f.join(nil)
		h := holds(t, there.lock())
		first, second := here.lock(), here.lock()
		o, got := takes(t.Context(), first)
		synctest.Wait()
		joins := func() int { return len(f.ops(core.Join)) }
		require.Equal(t, 1, joins())
		lost := func(deaf bool) {
			f.mu.Lock()
			defer f.mu.Unlock()
			here.wire.(*fakeWire).deaf = deaf
		}
		lost(true)
		next, gets := takes(t.Context(), second)
		synctest.Wait()
		assert.Equal(t, 1, joins())
		time.Sleep(10 * time.Second)
		assert.Equal(t, 2, joins())
		lost(false)
		require.NoError(t, h.Release(t.Context()))
		require.NoError(t, <-got)
		require.NoError(t, first.Unlock(t.Context(), o))
		require.NoError(t, <-gets)
		require.NoError(t, second.Unlock(t.Context(), next))
		f.isClean()
	})
}

// The message of a grant may overtake the answer to the Join. The caller has waited all the same:
// what it was waiting for may have happened between its attempt and its ticket.
func TestAGrantThatOvertakesTheAnswerToItsJoinWasWaitedFor(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		here, there := f.join(nil), f.join(nil)
		h := holds(t, there.lock())
		f.onOp(core.Join, late)
		l, req := here.lock(), request(contract.NewOwner())
		req.Answer = new(contract.Answer)
		got := later(func() error { return l.Take(t.Context(), req) })
		require.NoError(t, h.Release(t.Context()))
		f.deliver(-1)
		require.NoError(t, <-got)
		assert.True(t, req.Answer.Waited)
		assert.Zero(t, f.count(core.Look), "the grant came before the answer")
		require.NoError(t, l.Unlock(t.Context(), req.Owner))
		f.isClean()
	})
}

// Between the decision to send a command and the command itself a call may wait for one of the
// slots among those in flight, without the mutex. Any answer and any message may come meanwhile.

// fill takes all slots of the limit, and returns the function that gives them back.
func fill(limit *wire.Limit) (leave func()) {
	taken := 0
	for _, ok := limit.TryEnter(); ok; _, ok = limit.TryEnter() {
		taken++
	}
	return func() {
		for range taken {
			limit.FreeSlot()
		}
	}
}

// holdsWhileRenewed returns a hold of which a renewal is under way, of that fate, with all slots of
// releases taken.
func holdsWhileRenewed(t *testing.T, f *fake, renewal fate) (h Handle, leave func()) {
	c := f.join(nil)
	h = holds(t, c.lock())
	f.onOp(core.Mirror, renewal)
	time.Sleep(10*time.Second + 100*time.Millisecond) // a third of the lease
	require.Equal(t, 1, f.count(core.Mirror), "a renewal is under way")
	return h, fill(&c.wire.Limits(0).Releases)
}

// A renewal that is answered after the release, when the tenure is over, is one of no hold.
func TestARenewalThatIsAnsweredAfterTheReleaseIsNotCounted(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		h, leave := holdsWhileRenewed(t, f, late)
		leave()
		require.NoError(t, h.Release(t.Context()))
		f.deliver(0)
		synctest.Wait()
		assert.Zero(t, f.clients[0].client.Counts().Renewals)
	})
}

// A release that has waited for a slot does not have the whole time for its answer once more.
func TestAReleaseThatWaitsForASlotIsBounded(t *testing.T) {
	for _, waits := range []time.Duration{time.Millisecond, 2900 * time.Millisecond, time.Minute} {
		bubble(t, func(t *testing.T, f *fake) {
			c := f.join(nil)
			h := holds(t, c.lock())
			leave := fill(&c.wire.Limits(0).Releases)
			f.onOp(core.Leave, held)
			time.AfterFunc(waits, leave)
			ended := later(func() error { return h.Release(t.Context()) })
			time.Sleep(4 * time.Second)
			synctest.Wait()
			select {
			case err := <-ended:
				require.ErrorIs(t, err, contract.ErrUnconfirmed)
			default:
				t.Error("it takes longer than four seconds")
				f.deliver(0)
			}
			time.Sleep(time.Minute)
			f.isClean()
		})
	}
}

// Redis may have lost the key meanwhile: then there is nothing to pass on.
func TestALostTenureIsNotPassedOn(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		h, leave := holdsWhileRenewed(t, f, held)
		f.forgets()
		passed := later(func() error {
			_, err := h.Pass(t.Context(), time.Minute)
			return err
		})
		f.deliver(0)
		synctest.Wait()
		leave()
		require.ErrorIs(t, <-passed, contract.ErrLost)
		assert.Equal(t, 1, f.count(core.Mirror), "nothing is sent that would pass it on")
		f.isClean()
	})
}

// A carrier calls code of the user: a Dialer, a rueidis client that is shared.
func TestTheErrorOfACarrierThatPanicsHasItsStack(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		f.gives(panicking, core.Acquire)
		attempt := request(contract.NewOwner())
		attempt.Wait = 0
		err := f.join(nil).lock().Take(t.Context(), attempt)
		panicked := (*contract.PanicError)(nil)
		require.ErrorAs(t, err, &panicked)
		assert.Contains(t, string(panicked.Stack), ".(*fake).run(")
		time.Sleep(time.Minute) // the acquire may have been executed
		f.isClean()
	})
}

// many returns locks of one client, in one slot.
func (f *fake) many(c *Client, n int) (locks []*NamedLock) {
	for i := range n {
		l := NewLock(c, f.kind, fmt.Sprint("many", i))
		locks = append(locks, &l)
	}
	return locks
}

// holdAll acquires the locks for an owner, as parts of a whole.
func holdAll(ctx context.Context, locks []*NamedLock, o contract.Owner) ([]Handle, error) {
	whole := &contract.Whole{Name: "whole"}
	requests := make([]Request, len(locks))
	for i := range requests {
		requests[i] = Request{Owner: o, Whole: whole}
	}
	return HoldAll(ctx, context.Background(), locks, requests)
}

// areFree asserts that nothing is left of the locks.
func (f *fake) areFree(locks []*NamedLock) {
	f.t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range locks {
		s := f.at(l.Name.Key)
		s.Expire(server.Time(time.Since(f.start)))
		assert.Empty(f.t, s.Holders, l.Name.Key)
	}
}

// A call that core ends before its command is over: while the release of a lock has no answer, an
// attempt for it waits for that answer, but not for long, and its lock is as any other afterwards.
func TestARowWhoseLockIsBeingReleasedHasNoAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		locks := f.many(c, 3)
		holds, err := holdAll(t.Context(), locks, contract.NewOwner())
		require.NoError(t, err)
		f.gives(held, core.Leave)
		released := later(func() error { return holds[0].Release(t.Context()) })
		for range 3 {
			_, err = holdAll(t.Context(), locks, contract.NewOwner())
			require.ErrorIs(t, err, contract.ErrUnanswered)
		}
		f.gives(passes)
		f.deliver(0)
		require.NoError(t, <-released)
		for _, h := range holds[1:] {
			require.NoError(t, h.Release(t.Context()))
		}
		again, err := holdAll(t.Context(), locks, contract.NewOwner())
		require.NoError(t, err)
		waits, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		_, err = locks[0].Hold(waits, waits, Request{Owner: contract.NewOwner(), AcquireOptions: contract.AcquireOptions{Wait: contract.Forever}})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		for _, h := range again {
			require.True(t, Valid(h))
			require.NoError(t, h.Release(t.Context()))
		}
		f.areFree(locks)
		time.Sleep(time.Minute) // the keeper has given back the ticket of the call that has waited
		assert.Nil(t, c.lockOf(locks[0]), "it is forgotten")
	})
}

// A lock behind one that is not free is not wanted any more, which is no failure of Redis.
func TestACallOfARowThatIsNotWantedAnyMoreCountsAsCancelled(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		here, there, third := f.join(nil), f.join(nil), f.join(nil)
		locks, others := f.many(here, 2), f.many(there, 2)
		_, err := holdAll(t.Context(), others, contract.NewOwner())
		require.NoError(t, err)
		ctx, leave := context.WithCancel(t.Context())
		_, waits := takes(ctx, f.many(third, 2)[1])
		synctest.Wait()
		f.mu.Lock()
		f.at(locks[1].Name.Key).Holders = nil // it is free, and has a queue: an Acquire is denied, and a release has to follow
		f.mu.Unlock()
		_, err = holdAll(t.Context(), locks, contract.NewOwner())
		require.ErrorIs(t, err, contract.ErrNotAcquired)
		counts := here.Counts()
		assert.Equal(t, []int64{1, 1, 0}, []int64{counts.Denied, counts.Canceled, counts.Failed})
		leave()
		<-waits
	})
}

// lockOf returns the lock as the client keeps it, nil if it has forgotten it.
func (c *Client) lockOf(l *NamedLock) *lockState {
	one, _ := c.enterIfAny(l.Name, 0)
	if one != nil {
		one.shard.exit(one)
	}
	return one
}

// An acquire of each kind, with each option of the face, ends in each way while its command is in
// flight, and the command is carried in each way. The client goes on: no late answer reaches a call
// that has returned, whose memory other locks reuse meanwhile, and nothing is left. The race
// detector sees what the assertions do not.
//
// TestEachOptionOfTheFaceEndsInEachWay fails for an option of package rlock that is missing in this
// table.
var optionsOfAnAcquire = map[string]func(req *Request){
	"none":           func(*Request) {},
	"WithLease":      func(req *Request) { req.Lease = 20 * time.Second },
	"WithMaxHold":    func(req *Request) { req.MaxHold = 20 * time.Second },
	"WithMinHold":    func(req *Request) { req.MinHold = time.Second },
	"WithWait":       func(req *Request) { req.Wait = 0 },
	"WithPermits":    func(req *Request) { req.More = 1 },
	"WithNote":       func(req *Request) { req.Note = new(string) },
	"WithLine":       func(req *Request) { req.Line = "tenant" },
	"WithMaxWaiters": func(req *Request) { req.MaxWaiters = 1 },
	"WithTakeover":   func(req *Request) { req.Takeover = time.Second },
	"WithProgress":   func(req *Request) { req.Progress = func(int, int) {} },
	"an answer": func(req *Request) {
		req.Answer, req.Unless = new(contract.Answer), &wire.Condition{Source: "return false"}
	},
}

// A wayToEnd is the fate of the first command of a call.
type wayToEnd struct {
	name   string
	fate   fate
	leaves bool // the caller leaves before the answer
	closes bool // the client is closed before the answer
	met    bool // the condition of the call is met
}

var waysToEnd = []wayToEnd{
	{name: "answered", fate: passes},
	{name: "refused", fate: refused},
	{name: "answered by its condition", fate: passes, met: true},
	{name: "left, and executed later", fate: held, leaves: true},
	{name: "left, and answered later", fate: late, leaves: true},
	{name: "left, and answered by its condition", fate: held, leaves: true, met: true},
	{name: "not executed", fate: lost},
	{name: "executed without an answer", fate: unheard},
	{name: "executed after the connection is lost", fate: strays},
	{name: "the client closes", fate: held, closes: true},
	{name: "the carrier panics", fate: panicking},
}

// carriages are the ways in which the command of an acquire is carried.
var carriages = []string{"behind", "apart", "in a row"}

func TestEachOptionOfTheFaceEndsInEachWay(t *testing.T) {
	names, err := filepath.Glob("../../*.go")
	require.NoError(t, err)
	found := 0
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || f.Type.Results == nil || !f.Name.IsExported() {
				continue
			}
			if id, ok := f.Type.Results.List[0].Type.(*ast.Ident); ok && id.Name == "AcquireOption" {
				found++
				assert.Contains(t, optionsOfAnAcquire, f.Name.Name, "an option of an acquire is missing in the table")
			}
		}
	}
	assert.Equal(t, len(optionsOfAnAcquire)-2, found, "options of the table that the face does not have")

	for kind := range KindID(kindCount) {
		if redistest.UnderRace && kind != PlainKind {
			continue // the others have other commands, and the same goroutines
		}
		for _, carriage := range carriages {
			for _, way := range waysToEnd {
				t.Run(fmt.Sprintf("%s/%s/%s", kindNames[kind], carriage, way.name), func(t *testing.T) {
					for option, change := range optionsOfAnAcquire {
						for _, shared := range []bool{false, true} {
							if shared && kind != ReadWriteKind || option == "WithPermits" && kind != SemaphoreKind ||
								option == "WithLine" && kind != FairKind && kind != SemaphoreKind ||
								option == "WithTakeover" && shared ||
								option == "an answer" && (kind == ReadWriteKind || kind == SemaphoreKind) {
								continue // the kind refuses the option
							}
							one := leaving{kind: kind, shared: shared, option: option, carriage: carriage, way: way, change: change}
							bubbleOf(t, kind, one.run)
						}
					}
				})
			}
		}
	}
}

var kindNames = [kindCount]string{"plain", "fenced", "read-write", "fair", "semaphore"}

// A leaving is one case of the table.
type leaving struct {
	kind             KindID
	shared           bool
	option, carriage string
	way              wayToEnd
	change           func(req *Request)
}

func (e leaving) run(t *testing.T, f *fake) {
	what := fmt.Sprintf("option %s, shared %v", e.option, e.shared)
	c := f.join(nil)
	if f.most = 0; e.kind == SemaphoreKind {
		f.most = 2
	}
	c.wire.(*fakeWire).keeps = e.carriage == "apart"
	l := c.lock()
	if e.shared {
		readers := l.ForReaders()
		l = &readers
	}

	f.givesNext(e.way.fate, func(cmd *core.Command) bool { return cmd.Op == core.Acquire || cmd.Op == core.Join })
	if e.way.met {
		f.meets("it is 42")
	}
	req := request(contract.NewHandleOwner())
	e.change(&req)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type result struct {
		held []Handle
		err  error
	}
	got := make(chan result, 1)
	go func() {
		if e.carriage == "in a row" {
			req.Wait, req.Whole = 0, &contract.Whole{Name: "whole"} // each is an attempt, for a part of a whole
			held, err := HoldAll(ctx, t.Context(), []*NamedLock{l}, []Request{req})
			got <- result{held, err}
			return
		}
		h, err := l.Hold(ctx, t.Context(), req)
		got <- result{[]Handle{h}, err}
	}()
	synctest.Wait()
	if e.way.leaves {
		cancel()
	}
	if e.way.closes {
		go func() { _ = c.Close() }()
		synctest.Wait()
		f.deliverAll() // a row waits for its commands, also when the client closes
	}
	r := <-got // a call that waits tries again
	f.gives(passes)
	if e.way.leaves {
		require.Error(t, r.err, what)
	}
	if e.way.fate == passes && !e.way.met {
		require.NoError(t, r.err, what)
	}

	// The memory of the call is reused, by other locks of other shards, before and after the late
	// answer.
	others := func() {
		if e.way.closes {
			return
		}
		for i := range 20 {
			other := NewLock(c, e.kind, fmt.Sprint("other", i))
			if f.most > 0 {
				other = NewSemaphore(c, fmt.Sprint("other", i), f.most)
			}
			o := contract.NewOwner()
			require.NoError(t, other.Take(t.Context(), request(o)), what)
			require.NoError(t, other.Unlock(t.Context(), o), what)
		}
	}
	done := make(chan struct{})
	go func() { defer close(done); others() }()
	f.deliverAll()
	<-done
	others()
	f.meets("")
	if r.err == nil {
		for _, h := range r.held {
			_ = h.Release(t.Context()) // one with a lease may be over
		}
	}
	time.Sleep(40 * time.Second) // longer than a lease
	if !e.way.closes {
		h, err := l.Hold(t.Context(), t.Context(), request(contract.NewHandleOwner()))
		require.NoError(t, err, what)
		require.NoError(t, h.Release(t.Context()), what)
		time.Sleep(40 * time.Second)
	}
	f.isClean()
}

// deliverAll lets go on everything that was held back.
func (f *fake) deliverAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range slices.Backward(f.waiting) {
		close(p.done)
	}
	f.waiting = nil
}

// A release that carries the ticket of the next call is refused, and so is that ticket: the call
// returns with the reason, or goes on and knows it.
func TestACallWhoseTicketJoinsWithARefusedReleaseHearsWhy(t *testing.T) {
	for answer, reason := range map[fate]error{misfit: wire.ErrWrongType, refused: wire.ErrNoAnswer} {
		bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
			here, there, third := f.join(func(c *Config) { c.HandoffLimit = 0 }), f.join(nil), f.join(nil)
			h, l := holds(t, there.lock()), here.lock()
			me, got := takes(t.Context(), l) // it listens from now on
			synctest.Wait()
			ctx, leave := context.WithCancel(t.Context())
			_, others := takes(ctx, third.lock())
			synctest.Wait()
			require.NoError(t, h.Release(t.Context()))
			require.NoError(t, <-got)
			time.Sleep(time.Second) // a mirror tells that others wait
			within, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, result := takes(within, here.lock())
			synctest.Wait()
			joins := 0
			f.decides(func(cmd *core.Command) fate {
				switch {
				case cmd.Joins.ID != (core.ID{}):
					joins++
					return answer
				case cmd.Op == core.Join:
					return held
				}
				return passes
			})
			assert.Error(t, l.Unlock(t.Context(), me))
			assert.Equal(t, 1, joins)
			assert.ErrorIs(t, <-result, reason)
			f.gives(passes)
			leave()
			<-others // with the lock, if the release was repeated
		})
	}
}

// A ticket that follows a short turn of its client is granted a brief claim, also if the lock was
// forgotten in between. With a longer turn the next claim is long again.
func TestTheTicketAfterAShortTurnIsBrief(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		here, there := f.join(nil), f.join(nil)
		for i, turn := range []struct {
			wait, hold time.Duration
			brief      bool
		}{{0, 0, false}, {briefClaim / 8, briefClaim / 8, true}, {0, briefClaim / 2, true}, {0, 0, false}, {briefClaim, 0, true}, {0, 0, false}} {
			h := holds(t, there.lock())
			l := here.lock()
			o, got := takes(t.Context(), l)
			synctest.Wait()
			time.Sleep(turn.wait)
			require.NoError(t, h.Release(t.Context()))
			require.NoError(t, <-got)
			f.mu.Lock()
			sent := slices.DeleteFunc(slices.Clone(f.sent), func(c core.Command) bool { return c.Op != core.Join })
			f.mu.Unlock()
			assert.Equal(t, turn.brief, sent[len(sent)-1].Brief, "turn %d", i)
			time.Sleep(turn.hold)
			require.NoError(t, l.Unlock(t.Context(), o))
			time.Sleep(time.Second)
		}
		f.isClean()
	})
}

// A shard keeps no more than so many locks with short turns in mind.
func TestLocksWithShortTurnsAreForgottenWhenTheyAreTooMany(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		c := f.join(nil)
		h := holds(t, c.lock())
		s := c.shardOf(c.lock().Name)
		s.shortTurns = make(map[lockKey]struct{})
		for i := range maxShortTurns {
			s.shortTurns[lockKey{key: fmt.Sprint(i)}] = struct{}{}
		}
		l := s.lockOf(PlainKind, key, 0)
		l.NoteShortTurn()
		l.rememberTurn()
		assert.Equal(t, map[lockKey]struct{}{{PlainKind, key}: {}}, s.shortTurns)
		require.NoError(t, h.Release(t.Context()))
	})
}
