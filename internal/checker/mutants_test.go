package checker_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/checker"
	"github.com/go-rlock/rlock/internal/history"
)

func TestACorrectLockPasses(t *testing.T) { right(t, false) }

func TestACorrectReadWriteLockPasses(t *testing.T) { right(t, true) }

func right(t *testing.T, readers bool) {
	t.Parallel()
	seeds := uint64(10)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		report := run(t, none, readers, seed)
		require.Empty(t, report.Violations, "seed %d\n%v", seed, report)
		// The history has enough events to judge.
		require.NotZero(t, report.LossesTold)
		require.NotZero(t, report.Outcomes[history.Cancelled])
		require.NotZero(t, report.Outcomes[history.Refused])
		require.NotZero(t, report.Outcomes[history.Lost])
	}
}

func TestALockWithABugIsCaughtByTheRuleThatForbidsIt(t *testing.T) {
	for bug, rules := range map[bug][]checker.Rule{
		noOwnerCheck:    {checker.Overlap},
		incrementTwice:  {checker.Count, checker.Stranded, checker.Leftover},
		notCounted:      {checker.Count},
		renewalAfter:    {checker.Stranded},
		fromReply:       {checker.Overlap},
		swallowedWake:   {checker.Stranded},
		repeatedToken:   {checker.Token},
		toldTwice:       {checker.ToldTwice},
		neverTold:       {checker.NeverTold},
		toldLate:        {checker.ToldLate},
		believedForever: {checker.Overdue},
		writerBeside:    {checker.Overlap},
		readerBeside:    {checker.Overlap},
		firstOutFrees:   {checker.Overlap},
		countedAsOne:    {checker.Count},
		shortestLease:   {checker.Overlap},
	} {
		t.Run(string(bug), func(t *testing.T) {
			t.Parallel()
			silent := slices.Clone(rules)
			for seed := uint64(0); seed < 5 && len(silent) > 0; seed++ {
				report := run(t, bug, slices.Contains(ofReaders, bug), seed)
				silent = slices.DeleteFunc(silent, func(rule checker.Rule) bool { return report.Broken(rule) > 0 })
			}
			require.Empty(t, silent, "rules that found nothing")
		})
	}
}

// run has workers of three processes contend for a lock with a bug, in virtual time, while
// its key is deleted now and then, and checks their history. With readers, most sections
// read.
func run(t *testing.T, bug bug, readers bool, seed uint64) (report checker.Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &server{bug: bug, readers: make(map[string]time.Time)}
		var workers sync.WaitGroup
		var files []*bytes.Buffer
		var recorders []*history.Recorder
		record := func(process string) *history.Recorder {
			files = append(files, new(bytes.Buffer))
			r := history.NewRecorder(files[len(files)-1], process)
			recorders = append(recorders, r)
			return r
		}
		for p := range 3 {
			id := fmt.Sprint("p", p)
			c := &client{
				server: s, bug: bug, ctx: ctx, seed: seed,
				holds: make(map[string]*hold), tenures: make(map[string]int),
			}
			r := record(id)
			for n := range 2 {
				w := &worker{
					client: c, recorder: r, number: n, owner: fmt.Sprintf("%s:%d", id, n), readers: readers,
					rand: rand.New(rand.NewPCG(seed, uint64(10*p+n+100))),
				}
				workers.Go(w.run)
			}
		}
		runner := record("runner")
		workers.Go(func() {
			for range 20 {
				time.Sleep(20 * time.Second)
				heal := runner.Inject(history.Fault{What: "DEL", Forgets: true})
				s.del()
				heal()
			}
		})
		workers.Wait()
		time.Sleep(time.Minute)
		if s.del() {
			runner.Leftover("the key")
		}
		cancel()
		time.Sleep(time.Minute) // until delayed commands arrive
		for _, r := range recorders {
			require.NoError(t, r.Close())
		}
		var events []history.Event
		for _, file := range files {
			read, err := history.Read(file)
			require.NoError(t, err)
			events = append(events, read...)
		}
		slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
		var err error
		report, err = checker.Check(events, checker.Options{Late: time.Second})
		require.NoError(t, err)
	})
	return report
}

// A worker takes the lock in random ways, and records its beliefs.
type worker struct {
	client   *client
	recorder *history.Recorder
	number   int
	owner    string
	rand     *rand.Rand
	readers  bool
	shared   bool // it reads in this section
}

func (w *worker) run() {
	for range 100 {
		w.sleep(2 * time.Second)
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if w.rand.IntN(5) == 0 {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(w.rand.Int64N(int64(time.Second))))
		} else if w.client.bug != none {
			ctx, cancel = context.WithTimeout(ctx, 5*time.Minute)
		}
		w.section(ctx)
		cancel()
	}
}

func (w *worker) sleep(most time.Duration) { time.Sleep(time.Duration(1 + w.rand.Int64N(int64(most)))) }

// section takes the lock once or twice, looks a few times, and gives it back.
func (w *worker) section(ctx context.Context) {
	var calls []*history.Call
	w.shared = w.readers && w.rand.IntN(4) > 0
	kept := w.rand.IntN(3) > 0
	for range 1 + w.rand.IntN(2) {
		if call := w.lock(ctx, kept, len(calls) > 0); call != nil {
			calls = append(calls, call)
		}
	}
	for _, call := range calls {
		for range w.rand.IntN(5) {
			w.sleep(500 * time.Millisecond)
			call.Look(func() history.Belief {
				held, until, levels := w.client.belief(w.as())
				return history.Belief{Held: held, Until: history.At(until), Count: levels}
			})
		}
		if w.rand.IntN(5) == 0 {
			w.sleep(6 * time.Second)
		}
	}
	for range calls {
		w.unlock()
	}
}

// as returns the worker's name to its client: as a reader it is another owner.
func (w *worker) as() string {
	if w.shared {
		return w.owner + " reads"
	}
	return w.owner
}

func (w *worker) lock(ctx context.Context, kept, nested bool) *history.Call {
	op := history.Op{
		Worker: w.number, Method: history.Lock, Name: "orders:42", Owner: w.owner,
		Lease: 3 * time.Second, Kept: kept, Shared: w.shared,
	}
	if w.rand.IntN(4) == 0 {
		op.Method = history.TryLock
	}
	call := w.recorder.Begin(op)
	token, err := w.client.lock(ctx, w.as(), w.shared, op.Lease, op.Kept, op.Method != history.TryLock, func() { call.Told("Done") })
	result := history.Result{Outcome: history.Acquired}
	if !w.shared { // readers that overlap have no order
		result.Token = token
	}
	switch {
	case errors.Is(err, errRefused):
		result.Outcome = history.Refused
	case err != nil:
		result.Outcome = history.Cancelled
	default:
		var until time.Time
		_, until, result.Count = w.client.belief(w.as())
		result.Until = history.At(until)
		result.Watched = !nested
	}
	call.End(result)
	if err != nil {
		return nil
	}
	return call
}

func (w *worker) unlock() {
	call := w.recorder.Begin(history.Op{Worker: w.number, Method: history.Unlock, Name: "orders:42", Owner: w.owner, Shared: w.shared})
	err := w.client.unlock(w.as())
	outcome := history.Released
	switch {
	case errors.Is(err, errLost):
		outcome = history.Lost
	case errors.Is(err, errNotHeld):
		outcome = history.NotHeld
	}
	call.End(history.Result{Outcome: outcome})
}
