package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// asWorker in the environment makes the test's binary a process of a fleet. It obeys the lines
// of its input until that ends:
//
//	work        lock and unlock, by several goroutines
//	pause       stop that, and tell the figures when no goroutine has a lock
//	take NAME   wait for a fair lock and hold it, and tell both its beginning and its loss
//	give        release the lock, or wait no longer, and tell when that is done
//	figures     tell the figures
const asWorker = "RLOCK_TEST_AS_WORKER"

// fleetLease is short, since the test waits for some leases to end.
const fleetLease = 2 * time.Second

// Figures are a process's counts of its locks.
type figures struct{ Acquired, Denied, Failed, Lost int64 }

// An account is the report of a process: the results of its calls, the events of its observer
// in the goroutines of those calls, and the client's figures.
type account struct {
	Did   figures
	Seen  struct{ Acquired, GaveUp, Released int64 }
	Stats inspect.Stats
}

// A report is a line of a process of the fleet.
type report struct {
	Event   string // "ready", "took", "lost", "gave" or "figures"
	Lock    string
	Account account
}

// A worker is the process.
type worker struct {
	client   *rlock.Client
	paused   atomic.Bool
	sections sync.WaitGroup // goroutines that lock and unlock
	takes    sync.WaitGroup // goroutines that hold a lock, or wait for one, until give
	taking   context.Context
	stop     context.CancelFunc // ends taking

	mu      sync.Mutex // protects following
	account account
	out     *json.Encoder
}

func beWorker() (code int) {
	w := &worker{out: json.NewEncoder(os.Stdout)}
	add := func(n *int64) { w.count(func(*account) { *n++ }) }
	var err error
	w.client, err = rlock.New(rlock.Config{
		Redis: rueidis.ClientOption{InitAddress: []string{os.Getenv("RLOCK_ADDR")}, ForceSingleClient: true},
		Lease: fleetLease,
		Observer: &rlock.Observer{
			Acquired: func(context.Context, rlock.AcquiredInfo) { add(&w.account.Seen.Acquired) },
			GaveUp:   func(context.Context, rlock.GaveUpInfo) { add(&w.account.Seen.GaveUp) },
			Released: func(context.Context, rlock.ReleasedInfo) { add(&w.account.Seen.Released) },
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer w.client.Close()
	w.taking, w.stop = context.WithCancel(context.Background())
	defer w.give()
	w.tell("ready", "")
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		switch what, name, _ := strings.Cut(input.Text(), " "); what {
		case "work":
			w.paused.Store(false)
			for range 3 {
				w.sections.Go(func() {
					for !w.paused.Load() {
						w.section()
					}
				})
			}
		case "pause":
			w.paused.Store(true)
			w.sections.Wait()
			w.tell("figures", "")
		case "take":
			ctx := w.taking
			w.takes.Go(func() { w.take(ctx, name) })
		case "give":
			w.give()
			w.taking, w.stop = context.WithCancel(context.Background())
			w.tell("gave", "")
		case "figures":
			w.tell("figures", "")
		}
	}
	return 0
}

// count changes the account.
func (w *worker) count(change func(*account)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.account)
}

func (w *worker) tell(event, lock string) {
	stats := inspect.Of(w.client).Stats()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.account.Stats = stats
	_ = w.out.Encode(report{event, lock, w.account})
}

// acquire acquires the lock, and counts the result.
func (w *worker) acquire(ctx context.Context, lock *rlock.Lock, options ...rlock.AcquireOption) *rlock.Hold {
	hold, err := lock.Acquire(ctx, options...)
	w.count(func(a *account) {
		switch {
		case err == nil:
			a.Did.Acquired++
		case errors.Is(err, rlock.ErrNotAcquired):
			a.Did.Denied++
		default:
			a.Did.Failed++
		}
	})
	return hold
}

// release releases the hold, and reports and counts whether it was lost before.
func (w *worker) release(hold *rlock.Hold) (lost bool) {
	if lost = errors.Is(hold.Release(context.Background()), rlock.ErrLost); lost {
		w.count(func(a *account) { a.Did.Lost++ })
	}
	return lost
}

// section holds one of some locks of all kinds for a moment, unless other owners have it for
// too long.
func (w *worker) section() {
	lock := [...]*rlock.Lock{
		w.client.NewLock("fleet:plain"),
		w.client.NewFairLock("fleet:fair"),
		w.client.NewFencedLock("fleet:fenced"),
		w.client.NewReadWriteLock("fleet:rw").Read(),
		w.client.NewReadWriteLock("fleet:rw").Write(),
		w.client.NewSemaphore("fleet:permits", 3),
	}[rand.IntN(6)]
	var options []rlock.AcquireOption
	if rand.IntN(2) == 0 {
		options = append(options, rlock.WithWait(rand.N(20*time.Millisecond)))
	}
	if hold := w.acquire(context.Background(), lock, options...); hold != nil {
		time.Sleep(rand.N(5 * time.Millisecond)) // the work
		w.release(hold)
	}
}

// give ends the holds and waits of take.
func (w *worker) give() {
	w.stop()
	w.takes.Wait()
}

// take holds a lock until it is lost, or ctx ends.
func (w *worker) take(ctx context.Context, name string) {
	hold := w.acquire(ctx, w.client.NewFairLock(name))
	if hold == nil {
		return
	}
	w.tell("took", name)
	select {
	case <-hold.Context().Done():
	case <-ctx.Done():
	}
	if w.release(hold) {
		w.tell("lost", name)
	}
}
