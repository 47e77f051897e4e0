package diag

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// logging returns what logs to the buffer.
func logging(d *Diag) *logged {
	log := new(logged)
	d.Logger = slog.New(slog.NewTextHandler(log, nil))
	return log
}

// A logged is the log, which a test reads between two lines of a goroutine.
type logged struct {
	mu   sync.Mutex // protects following
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

// One owner holds a and waits for b, and the other the other way round.
func crossed() []terms.View { return crossedSince(0) }

func crossedSince(since int) []terms.View {
	return []terms.View{plain("a", 1, since, 2), plain("b", 2, since, 1)}
}

func TestADeadlockIsToldOnceForAsLongAsItLasts(t *testing.T) {
	f := &fake{views: crossed()}
	virtual(t, f, func(t *testing.T, d *Diag, _ *post) {
		log := logging(d)
		d.WaitBegins()
		synctest.Wait()
		assert.Equal(t, 1, strings.Count(log.String(), "deadlock"), log)
		for range 10 {
			d.WaitBegins()
			time.Sleep(time.Second)
		}
		synctest.Wait()
		assert.Equal(t, 2, f.lists, "one search for the same waits")
		assert.Equal(t, 1, strings.Count(log.String(), "deadlock"))
		f.set(func() { f.views = nil })
		time.Sleep(5 * time.Second)
		f.set(func() { f.views = crossedSince(2) })
		d.WaitBegins()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.Equal(t, 2, strings.Count(log.String(), "deadlock"), "another one")
		f.set(func() { f.views = nil })
		time.Sleep(5 * time.Second)
		synctest.Wait()
		looks := f.looks
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, looks, f.looks, "no call waits")
	})
}

// Two views are of different moments: there may have been a cycle at none of them.
func TestACycleThatOneLookHasIsNoDeadlock(t *testing.T) {
	f := &fake{views: crossed(), next: []terms.View{plain("a", 1, 0, 2), plain("b", 2, 0)}}
	virtual(t, f, func(t *testing.T, d *Diag, _ *post) {
		log := logging(d)
		d.WaitBegins()
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Empty(t, log.String())

		// One is there at both looks, and another at the second only.
		f.set(func() {
			f.views, f.next = crossedSince(2), append(crossedSince(2), plain("c", 3, 0, 4), plain("d", 4, 0, 3))
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 1, strings.Count(log.String(), "deadlock"), log)
	})
}

func TestNoDeadlockIsFoundWhereNoneIs(t *testing.T) {
	semaphore := crossed()
	for i := range semaphore {
		semaphore[i].Kind = terms.KindSemaphore
	}
	readers := terms.View{Name: "rw", Kind: terms.KindWrite, ReadKind: terms.KindRead, ValidUntil: far,
		Levels: []terms.Level{{Owner: owner(1), Reads: true, First: true}, {Owner: owner(2), Reads: true, First: true}},
		Waits:  []terms.Wait{{Owner: owner(1), Reads: true}}}
	for what, views := range map[string][]terms.View{
		"a line": {plain("a", 1, 0, 2), plain("b", 2, 0, 3)}, "any permit will do": semaphore, "readers": {readers},
	} {
		assert.Empty(t, deadlocks(Uses(&fake{views: views}, true)), what)
	}
	assert.Len(t, deadlocks(Uses(&fake{views: crossed()}, true)), 1)
}

func TestASearchCostsATenthOfTheTime(t *testing.T) {
	f := &fake{views: crossed(), takes: 2 * time.Second}
	virtual(t, f, func(t *testing.T, d *Diag, _ *post) {
		logging(d)
		d.WaitBegins()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.LessOrEqual(t, time.Duration(f.looks)*f.takes, time.Minute)
		assert.Greater(t, f.looks, 20)
	})
}
