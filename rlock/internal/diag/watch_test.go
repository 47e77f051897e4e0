package diag

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// lastingLock returns a lock that is held since now, with a call that waits since now.
func lastingLock(name string, site *terms.Site) terms.View {
	v := plain(name, 1, 0, 2)
	v.Levels[0].Since, v.Waits[0].Since, v.Waits[0].Site = time.Now(), time.Now(), site
	return v
}

// limited makes a client log holds after four seconds and waits after seven.
func limited(d *Diag) { d.LongHold, d.LongWait = 4*time.Second, 7*time.Second }

// begins notes that waits and holds have begun.
func begins(d *Diag) {
	d.WaitBegins()
	d.HoldBegins()
}

const (
	longHold = "a lock is held for a long time"
	longWait = "a call waits for a lock for a long time"
)

func TestWaitsAndHoldsThatLastAreLoggedOnceAndInTime(t *testing.T) {
	f := &fake{}
	virtual(t, f, func(t *testing.T, d *Diag) {
		log := logging(d)
		limited(d)
		said := func(holds, waits int) {
			t.Helper()
			synctest.Wait()
			assert.Equal(t, holds, strings.Count(log.String(), longHold))
			assert.Equal(t, waits, strings.Count(log.String(), longWait))
		}
		here := &terms.Site{Function: "here"}
		f.set(func() { f.views = []terms.View{lastingLock("a", here)} })
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
		f.set(func() { f.views = []terms.View{lastingLock("a", here)} })
		time.Sleep(time.Minute)
		said(3, 3)
	})
}

// The goroutine of a call finds its site out, for a later look.
func TestALongWaitIsLoggedOnceItsSiteIsKnown(t *testing.T) {
	f := &fake{}
	virtual(t, f, func(t *testing.T, d *Diag) {
		log := logging(d)
		limited(d)
		f.set(func() { f.views = []terms.View{lastingLock("a", nil)} })
		begins(d)
		time.Sleep(8 * time.Second)
		synctest.Wait()
		assert.NotContains(t, log.String(), longWait)
		assert.True(t, f.located)
		f.set(func() { f.views[0].Waits[0].Site = &terms.Site{Function: "here"} })
		time.Sleep(2 * leastPause)
		synctest.Wait()
		assert.Equal(t, 1, strings.Count(log.String(), longWait))
		assert.Contains(t, log.String(), "here")
	})
}

func TestAWholeIsLoggedInPlaceOfItsParts(t *testing.T) {
	f := &fake{}
	virtual(t, f, func(t *testing.T, d *Diag) {
		log := logging(d)
		limited(d)
		whole := &terms.Whole{Name: "a,b", Kind: terms.KindMulti}
		for _, name := range []string{"a", "b"} {
			v := lastingLock(name, nil)
			v.Levels[0].Whole, v.Waits[0].Whole = whole, whole
			f.views = append(f.views, v)
		}
		begins(d)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 1, strings.Count(log.String(), longHold))
		assert.Equal(t, 1, strings.Count(log.String(), "lock=a,b kind=multi"))
		assert.NotContains(t, log.String(), longWait, "it logs its own waits")
	})
}

// A leader holds its lock for as long as it lives.
func TestAHoldThatIsLongByDesignIsNotLogged(t *testing.T) {
	f := &fake{}
	virtual(t, f, func(t *testing.T, d *Diag) {
		log := logging(d)
		limited(d)
		v := lastingLock("a", nil)
		v.Levels[0].Standing = true
		f.views = []terms.View{v}
		begins(d)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.NotContains(t, log.String(), longHold)
	})
}

// Holds cost nothing while they are short.
func TestHoldsAreLookedAtOnceAMinute(t *testing.T) {
	f := &fake{}
	virtual(t, f, func(t *testing.T, d *Diag) {
		log := logging(d)
		d.LongHold = 10 * time.Minute
		f.views = []terms.View{lastingLock("a", nil)}
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
	virtual(t, f, func(t *testing.T, d *Diag) {
		log := logging(d)
		limited(d)
		f.set(func() { f.views = []terms.View{plain("a", 1, 0)} })
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
		f.set(func() { f.views = []terms.View{plain("a", 1, 0)} })
		begins(d)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, looks+1, f.looks)
		assert.Equal(t, 1, strings.Count(log.String(), longHold))
	})
}
