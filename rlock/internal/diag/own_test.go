package diag

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// A background runs work, and ends with the test.
type background struct {
	ctx     context.Context
	running sync.WaitGroup
}

func (b *background) Done() <-chan struct{} { return b.ctx.Done() }

func (b *background) Start(work func()) bool {
	b.running.Go(work)
	return true
}

// virtual runs a test in virtual time.
func virtual(t *testing.T, f *fake, run func(t *testing.T, d *Diag)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		b := &background{ctx: ctx}
		run(t, New(Config{Source: f, Redis: b}))
		end()
		b.running.Wait()
	})
}

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

const ownWait = "waits for a lock that its own goroutine holds"

// own returns a lock that a goroutine holds by one owner and waits for by another.
func own(name string) terms.View {
	v := plain(name, 1, 0, 2, 3)
	v.Levels[0].Goroutine, v.Waits[0].Goroutine, v.Waits[1].Goroutine = 7, 7, 8
	return v
}

func TestAGoroutineThatWaitsForItsOwnLockIsToldOnce(t *testing.T) {
	f := &fake{views: []terms.View{plain("a", 1, 0, 2), own("b")}}
	virtual(t, f, func(t *testing.T, d *Diag) {
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
	semaphore.Kind = terms.KindSemaphore
	readers := own("readers")
	readers.Kind, readers.Levels[0].Reads, readers.Waits[0].Reads = terms.KindWrite, true, true
	unknown := own("no goroutine is known")
	unknown.Levels[0].Goroutine, unknown.Waits[0].Goroutine = 0, 0
	virtual(t, &fake{views: []terms.View{semaphore, readers, unknown}}, func(t *testing.T, d *Diag) {
		log := logging(d)
		d.WaitBegins()
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Empty(t, log.String())
	})
}

func TestASearchCostsATenthOfTheTime(t *testing.T) {
	f := &fake{views: []terms.View{own("b")}, takes: 2 * time.Second}
	virtual(t, f, func(t *testing.T, d *Diag) {
		logging(d)
		d.WaitBegins()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.LessOrEqual(t, time.Duration(f.looks)*f.takes, time.Minute)
		assert.Greater(t, f.looks, 20)
	})
}
