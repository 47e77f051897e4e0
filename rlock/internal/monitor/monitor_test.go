package monitor

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/stretchr/testify/assert"
)

// A fake is locks that are no locks.
type fake struct {
	mu    sync.Mutex // guards the fields below
	views []contract.View
	looks int
	lists int // looks for a list of all

	located bool          // calls were asked where they were made
	takes   time.Duration // that a look takes
}

func (f *fake) ReadLocks(look contract.Look, yield func(*contract.View)) {
	f.mu.Lock()
	f.looks++
	if look.Holds {
		f.lists++
	}
	takes, views := f.takes, f.views
	f.located = f.located || len(views) > 0 && !look.Locate.IsZero()
	f.mu.Unlock()
	time.Sleep(takes)
	for i := range views {
		v := views[i]
		if !look.Waits {
			v.Waits = nil
		}
		if len(v.Levels) > 0 {
			v.Tenure, v.Holder = "tenure:", v.Levels[0]
		}
		yield(&v)
	}
}

// set changes the locks.
func (f *fake) set(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// start is when the uses of these tests begin.
var start = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func owner(id uint64) contract.Owner { return contract.Owner{ID: id} }

// far is later than any time here.
var far = time.Now().Add(time.Hour)

// plain returns a plain lock that the owner has held since then, and for which these wait.
func plain(name string, holder uint64, since int, waiters ...uint64) contract.View {
	v := contract.View{Name: name, Kind: contract.KindPlain, ReadKind: contract.KindRead, ValidUntil: far}
	if holder != 0 {
		v.Levels = []contract.Level{{Owner: owner(holder), First: true, Since: at(since)}}
	}
	for _, w := range waiters {
		v.Waits = append(v.Waits, contract.Wait{Owner: owner(w), Since: at(since + 1)})
	}
	return v
}

// text writes uses, one a line.
func text(uses []Use) (lines []string) {
	for _, u := range uses {
		line := fmt.Sprintf("%s %s %d", u.Name, u.Kind, u.Owner)
		switch {
		case u.Waits:
			line += " waits"
		default:
			line += fmt.Sprintf(" x%d", u.Depth)
		}
		if u.PartOf != "" {
			line += " for " + u.PartOf
		}
		lines = append(lines, line)
	}
	return lines
}

// A worker runs work, and ends with the test.
type worker struct {
	ctx     context.Context
	running sync.WaitGroup
}

func (b *worker) Done() <-chan struct{} { return b.ctx.Done() }

func (b *worker) Start(work func()) bool {
	b.running.Go(work)
	return true
}

func virtual(t *testing.T, f *fake, run func(t *testing.T, d *Watcher)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		b := &worker{ctx: ctx}
		run(t, New(Config{Source: f, Redis: b}))
		end()
		b.running.Wait()
	})
}

// logging returns what logs to the buffer.
func logging(d *Watcher) *logged {
	log := new(logged)
	d.Logger = slog.New(slog.NewTextHandler(log, nil))
	return log
}

// A logged is the log, which a test reads between two lines of a goroutine.
type logged struct {
	mu   sync.Mutex // guards the fields below
	text bytes.Buffer
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

const ownWait = "waits for a lock that its own goroutine holds"

// own returns a lock that a goroutine holds by one owner and waits for by another.
func own(name string) contract.View {
	v := plain(name, 1, 0, 2, 3)
	v.Levels[0].Goroutine, v.Waits[0].Goroutine, v.Waits[1].Goroutine = 7, 7, 8
	return v
}

func TestAGoroutineThatWaitsForItsOwnLockIsToldOnce(t *testing.T) {
	f := &fake{views: []contract.View{plain("a", 1, 0, 2), own("b")}}
	virtual(t, f, func(t *testing.T, d *Watcher) {
		log := logging(d)
		for range 10 {
			d.WaitBegins()
			time.Sleep(time.Second)
		}
		synctest.Wait()
		assert.Equal(t, 1, strings.Count(log.String(), ownWait), log)
		assert.Contains(t, log.String(), "lock=b kind=plain owner=2")
		assert.Equal(t, 1, f.lists, "one search for the same waits")
		f.set(func() { f.views = nil })
		time.Sleep(5 * time.Second)
		synctest.Wait()
		looks := f.looks
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, looks, f.looks, "no call waits")
	})
}

// A waiter for a semaphore needs any permit, and readers do not wait for each other.
func TestAWaitThatAnotherMayEndIsNotToldAsOnesOwn(t *testing.T) {
	semaphore := own("semaphore")
	semaphore.Kind = contract.KindSemaphore
	readers := own("readers")
	readers.Kind, readers.Levels[0].Reads, readers.Waits[0].Reads = contract.KindWrite, true, true
	unknown := own("no goroutine is known")
	unknown.Levels[0].Goroutine, unknown.Waits[0].Goroutine = 0, 0
	virtual(t, &fake{views: []contract.View{semaphore, readers, unknown}}, func(t *testing.T, d *Watcher) {
		log := logging(d)
		d.WaitBegins()
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Empty(t, log.String())
	})
}

func TestASearchCostsATenthOfTheTime(t *testing.T) {
	f := &fake{views: []contract.View{own("b")}, takes: 2 * time.Second}
	virtual(t, f, func(t *testing.T, d *Watcher) {
		logging(d)
		d.WaitBegins()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.LessOrEqual(t, time.Duration(f.looks)*f.takes, time.Minute)
		assert.Greater(t, f.looks, 20)
	})
}

func TestUsesAreOneForEachOwnerAndEachWait(t *testing.T) {
	soon := time.Now().Add(time.Minute)
	site := &contract.Site{Function: "here"}
	whole := &contract.Whole{Name: "a,b", Site: site}
	f := &fake{views: []contract.View{
		plain("b", 1, 5, 2, 3),
		{Name: "nested", Kind: contract.KindPlain, ValidUntil: far, Levels: []contract.Level{
			{Owner: owner(1), Since: at(2), Until: soon}, // the first one is not the first in the list
			{Owner: owner(1), First: true, Since: at(1), Until: soon.Add(-time.Second), Goroutine: 7, Whole: whole},
		}},
		{Name: "rw", Kind: contract.KindWrite, ReadKind: contract.KindRead, ValidUntil: far, Levels: []contract.Level{
			{Owner: owner(1), Reads: true, First: true, Since: at(3)},
			{Owner: owner(2), Reads: true, First: true, Since: at(4), Until: soon},
		}, Waits: []contract.Wait{{Owner: owner(5), Since: at(9), Site: site}, {Owner: owner(6), Reads: true, Since: at(9), Whole: whole}}},
		{Name: "both", Kind: contract.KindWrite, ReadKind: contract.KindRead, ValidUntil: far, Levels: []contract.Level{
			{Owner: owner(1), First: true, Since: at(6)}, {Owner: owner(1), Reads: true, Since: at(7)},
		}},
		{Name: "lapsed", Kind: contract.KindPlain, ValidUntil: time.Now(), Levels: []contract.Level{{Owner: owner(1), First: true}}},
		{Name: "over", Kind: contract.KindPlain, ValidUntil: far, Levels: []contract.Level{{Owner: owner(1), First: true, Until: time.Now()}}},
		plain("a", 3, 5),
	}}
	uses := Uses(f, true)
	assert.Equal(t, []string{
		"nested plain 1 x2 for a,b", "rw read 1 x1", "rw read 2 x1", "a plain 3 x1", "b plain 1 x1",
		"b plain 2 waits", "b plain 3 waits", "both write 1 x2", "rw write 5 waits", "rw read 6 waits for a,b",
	}, text(uses))
	assert.Equal(t, soon, uses[0].ValidUntil, "its longest level")
	assert.EqualValues(t, 7, uses[0].Goroutine)
	assert.Equal(t, *site, uses[0].Site)
	assert.Equal(t, far, uses[1].ValidUntil)
	assert.Equal(t, soon, uses[2].ValidUntil)
	assert.Equal(t, *site, uses[8].Site)
	assert.Equal(t, []string{"nested plain 1 x2 for a,b", "rw read 1 x1", "rw read 2 x1", "a plain 3 x1", "b plain 1 x1", "both write 1 x2"}, text(Uses(f, false)))
}

// Many owners, each with several levels in no order.
func TestTheLevelsOfManyOwnersAreToldApart(t *testing.T) {
	v := contract.View{Name: "rw", Kind: contract.KindWrite, ReadKind: contract.KindRead, ValidUntil: far}
	for i := range uint64(300) {
		v.Levels = append(v.Levels, contract.Level{Owner: owner(i%100 + 1), Reads: true, First: i < 100, Since: at(int(i))})
	}
	w := v
	w.Name = "rw2"
	uses := Uses(&fake{views: []contract.View{plain("other", 1, 0), v, plain("another", 1, 0), w}}, true)
	assert.Len(t, uses, 202)
	for i, u := range uses[4:] {
		assert.Equal(t, 3, u.Depth)
		assert.Equal(t, at(1+i/2), u.Since)
	}
	assert.True(t, slices.IsSortedFunc(uses, func(a, b Use) int { return a.Since.Compare(b.Since) }))
}

// lastingLock returns a lock that is held since now, with a call that waits since now.
func lastingLock(name string, site *contract.Site) contract.View {
	v := plain(name, 1, 0, 2)
	v.Levels[0].Since, v.Waits[0].Since, v.Waits[0].Site = time.Now(), time.Now(), site
	return v
}

// limited makes a client log holds after four seconds and waits after seven.
func limited(d *Watcher) { d.LongHold, d.LongWait = 4*time.Second, 7*time.Second }

// begins notes that waits and holds have begun.
func begins(d *Watcher) {
	d.WaitBegins()
	d.HoldBegins()
}

const (
	longHold = "a lock is held for a long time"
	longWait = "a call waits for a lock for a long time"
)

func TestWaitsAndHoldsThatLastAreLoggedOnceAndInTime(t *testing.T) {
	f := &fake{}
	virtual(t, f, func(t *testing.T, d *Watcher) {
		log := logging(d)
		limited(d)
		said := func(holds, waits int) {
			t.Helper()
			synctest.Wait()
			assert.Equal(t, holds, strings.Count(log.String(), longHold))
			assert.Equal(t, waits, strings.Count(log.String(), longWait))
		}
		here := &contract.Site{Function: "here"}
		f.set(func() { f.views = []contract.View{lastingLock("a", here)} })
		begins(d)
		time.Sleep(300 * time.Millisecond)
		f.set(func() { f.views = append(f.views[:1:1], lastingLock("b", here)) }) // between two looks
		begins(d)
		time.Sleep(3699 * time.Millisecond)
		said(0, 0)
		time.Sleep(time.Millisecond)
		said(1, 0)
		time.Sleep(299 * time.Millisecond)
		said(1, 0)
		time.Sleep(time.Millisecond)
		said(2, 0)
		time.Sleep(2700 * time.Millisecond)
		said(2, 1)
		time.Sleep(300 * time.Millisecond)
		said(2, 2)
		assert.Equal(t, 2, strings.Count(log.String(), "waited=7s"))
		assert.Equal(t, 2, strings.Count(log.String(), "holder=tenure:1"))
		time.Sleep(time.Hour)
		said(2, 2)

		// The same owners again, later, are others.
		f.set(func() { f.views = []contract.View{lastingLock("a", here)} })
		time.Sleep(time.Minute)
		said(3, 3)
	})
}

// The goroutine of a call finds its site out, for a later look. A leader, for which others wait,
// holds its lock for as long as it lives.
func TestALongWaitIsLoggedOnceItsSiteIsKnown(t *testing.T) {
	f := &fake{}
	virtual(t, f, func(t *testing.T, d *Watcher) {
		log := logging(d)
		limited(d)
		f.set(func() { f.views = []contract.View{lastingLock("a", nil)}; f.views[0].Levels[0].Standing = true })
		begins(d)
		time.Sleep(8 * time.Second)
		synctest.Wait()
		assert.NotContains(t, log.String(), longWait)
		assert.True(t, f.located)
		f.set(func() { f.views[0].Waits[0].Site, f.views[0].Note = &contract.Site{Function: "here"}, "mine" })
		time.Sleep(2 * leastPause)
		synctest.Wait()
		assert.Equal(t, 1, strings.Count(log.String(), longWait))
		assert.Contains(t, log.String(), "here")
		assert.Contains(t, log.String(), "holder_note=mine")
		assert.NotContains(t, log.String(), longHold)
	})
}

func TestAWholeIsLoggedInPlaceOfItsParts(t *testing.T) {
	f := &fake{}
	virtual(t, f, func(t *testing.T, d *Watcher) {
		log := logging(d)
		limited(d)
		d.ReleaseDropped = true
		var released atomic.Int32
		whole := &contract.Whole{Name: "a,b", Kind: contract.KindMulti}
		for _, name := range []string{"a", "b"} {
			v := lastingLock(name, nil)
			v.Levels[0].Whole, v.Waits[0].Whole, v.Levels[0].Dropped = whole, whole, true
			f.views = append(f.views, v)
		}
		f.views[0].Levels[0].Release = func() { released.Add(1) }
		begins(d)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 1, strings.Count(log.String(), longHold))
		assert.Equal(t, 1, strings.Count(log.String(), "has dropped a Hold"))
		assert.Equal(t, 2, strings.Count(log.String(), "lock=a,b kind=multi"))
		assert.Positive(t, released.Load())
		assert.NotContains(t, log.String(), longWait, "it logs its own waits")
	})
}

// Holds cost nothing while they are short.
func TestHoldsAreLookedAtOnceAMinute(t *testing.T) {
	f := &fake{}
	virtual(t, f, func(t *testing.T, d *Watcher) {
		log := logging(d)
		d.LongHold = 10 * time.Minute
		f.views = []contract.View{lastingLock("a", nil)}
		for range 100 {
			d.HoldBegins()
			time.Sleep(6 * time.Second)
		}
		synctest.Wait()
		assert.Equal(t, 11, f.looks)
		assert.Equal(t, 1, strings.Count(log.String(), longHold), "in time")
	})
}

// A hold is of no interest without a limit, and nothing is looked at where nothing may last.
func TestNothingIsLookedAtWhereNothingLasts(t *testing.T) {
	f := &fake{}
	virtual(t, f, func(t *testing.T, d *Watcher) {
		log := logging(d)
		limited(d)
		f.set(func() { f.views = []contract.View{plain("a", 1, 0)} })
		begins(d)
		time.Sleep(10 * time.Second)
		f.set(func() { f.views = nil })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		looks := f.looks
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, looks, f.looks)

		d.LongHold = 0
		f.set(func() { f.views = []contract.View{plain("a", 1, 0)} })
		begins(d)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, looks+1, f.looks)
		assert.Equal(t, 1, strings.Count(log.String(), longHold))
	})
}
