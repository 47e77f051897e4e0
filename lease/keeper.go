package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A Keeper asks renewables when their time has come, and sends those that want it in batches, by
// group. However many renewables it has, it has one goroutine, and one more for each batch in
// flight. Make one with [NewKeeper]. All methods may be called concurrently, also from Due and
// Send, except that Close must not be.
type Keeper struct {
	config Config
	clock  func() time.Time // has the monotonic and the wall clock; tests replace it
	epoch  time.Time        // the zero of all durations below

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // the goroutines
	wake   chan struct{}  // capacity one: a mark that the goroutine must look again
	timer  *time.Timer    // only the goroutine touches it

	mu     sync.Mutex // protects following, and the keeping of every entry
	closed bool
	wheel  *Wheel
	groups map[uint32]*group // every one ever seen: there are few nodes

	// ready has the entries to ask in the next pass. paced has those that were nudged too soon
	// after their last send, in the order of the nudges.
	ready, paced fifo

	// wakesAt is the time at which the goroutine wakes by itself. Nothing later need wake it, which
	// makes Schedule and Stop cheap.
	wakesAt time.Duration
	// wokenFor is the time for which the goroutine was woken since it last slept, or awake if no
	// time ahead was given.
	wokenFor time.Duration

	// skew is the least lead of the wall clock over the monotonic one, both counted from epoch,
	// since everything was last asked.
	skew time.Duration
}

// keeping is the keeper's note on an entry. The keeper's mutex protects it.
//
// A renewable that was nudged and not yet asked is in a fifo, or being asked, or in flight, and
// whatever ends those looks at nudged: so no nudge is lost.
type keeping struct {
	owner Renewable // nil after Stop

	in             *fifo // the fifo that it stands in, or nil
	before, behind *Entry

	rest   time.Duration // the time before which it must not be sent, by the pace
	asked  bool          // Due is being called; the entry then stands in no fifo
	flying bool          // the entry is in a batch, from its building to its end

	// nudged is set and cleared with the mutex, and read by Nudge without.
	nudged atomic.Bool
}

// NewKeeper returns a keeper with its goroutine running. It panics if config.Send is nil. Close it
// when it is no longer needed.
func NewKeeper(config Config) *Keeper {
	return newKeeper(config, time.Now)
}

func newKeeper(config Config, clock func() time.Time) *Keeper {
	config = config.withDefaults()
	epoch := clock()
	k := &Keeper{
		config: config,
		clock:  clock,
		epoch:  epoch,
		wake:   make(chan struct{}, 1),
		timer:  time.NewTimer(time.Hour),
		wheel:  NewWheel(epoch, config.Tick),
		groups: make(map[uint32]*group),
	}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.wakesAt, k.wokenFor = awake, awake
	k.wg.Add(1)
	go k.run()
	return k
}

// Schedule makes the keeper ask r at the given time, instead of any other it was scheduled for. It
// neither hastens nor delays a nudge, or a send that r waits for. It does nothing after Close.
func (k *Keeper) Schedule(r Renewable, at time.Time) {
	e := r.Entry()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	e.keeping.owner = r
	k.wheel.Schedule(e, at)
	k.wakeByLocked(time.Duration(e.due) * k.config.Tick)
}

// Nudge makes the keeper ask r as soon as possible: at once if its last send began at least a pace
// ago and is over, otherwise when both are true. Nudges that come before r is asked are one, and
// cost a few nanoseconds each. Make the change before the nudge, under the mutex that Due and Send
// look at r with: the command that is sent then has it.
//
// No send begins sooner than a pace after the last one of r, and Due comes no later than a pace
// after the nudge, or after the end of the flight if that is later. If the node of r does not
// answer, r waits for it like all others.
//
// It does nothing after Close.
func (k *Keeper) Nudge(r Renewable) {
	e := r.Entry()
	// While the mark is there Due is still to be called: the mark is taken away before the call.
	// Due thus takes r's mutex after the caller's change.
	if e.keeping.nudged.Load() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	e.keeping.owner = r
	e.keeping.nudged.Store(true)
	k.lineUpLocked(e)
}

// Stop forgets r: its time, its nudge, and its place in the queue of the next batch. It ignores one
// that the keeper does not know, and does not wake the keeper.
//
// It waits for nothing, so when it returns, Due may be running, and r may be in a batch that is
// being built or in flight. "After Stop nothing is renewed" is true by mutual exclusion: the caller
// marks r as over under r's own mutex, and Send looks for the mark under the same mutex while it
// builds the command. A command is then built before the mark, and is in flight when Stop is
// called, or never. Likewise Due and Send must not schedule or nudge a marked entry, since that
// makes r known again.
//
// It reports whether the keeper is done with r: false says that Due or Send may look at it yet, so
// that r must not be used for something else.
func (k *Keeper) Stop(r Renewable) (done bool) {
	e := r.Entry()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wheel.Stop(e)
	e.keeping.leave()
	e.keeping.owner = nil
	e.keeping.nudged.Store(false)
	return !e.keeping.asked && !e.keeping.flying
}

// Len returns the number of scheduled renewables, without those that only wait to be sent.
func (k *Keeper) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.wheel.Len()
}

// Close ends the keeper: nothing is asked or sent any more, and the contexts of the batches in
// flight end. It returns when all goroutines have, so it must not be called from Due or Send, nor
// with a mutex held that they take. Calls after the first wait likewise. Renewables are not
// notified.
func (k *Keeper) Close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.cancel()
	k.wg.Wait()
}
