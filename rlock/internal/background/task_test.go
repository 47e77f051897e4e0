package background

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// run runs a test in virtual time with a task that takes so long, pauses for so long, and goes on
// by itself so often.
func run(t *testing.T, takes, pause time.Duration, again int, test func(t *testing.T, task *Task, done *[]time.Duration)) {
	synctest.Test(t, func(t *testing.T) {
		var running sync.WaitGroup
		var done []time.Duration
		closed, began := make(chan struct{}), time.Now()
		task := &Task{
			Done: closed,
			Start: func(work func()) bool {
				select {
				case <-closed:
					return false
				default:
					running.Go(work)
					return true
				}
			},
			Work: func() (time.Duration, bool) {
				done = append(done, time.Since(began))
				time.Sleep(takes)
				again--
				return pause, again >= 0
			},
		}
		test(t, task, &done)
		close(closed)
		running.Wait()
		task.Ask()
	})
}

func TestWorkIsDoneAtOnceAndThenAfterItsPause(t *testing.T) {
	run(t, time.Second, 10*time.Second, 0, func(t *testing.T, task *Task, done *[]time.Duration) {
		for range 3000 {
			task.Ask()
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []time.Duration{0, 11 * time.Second, 22 * time.Second, 33 * time.Second}, *done)
		task.Ask()
		synctest.Wait()
		assert.Len(t, *done, 5, "it has rested")
	})
}

func TestWorkGoesOnByItselfAsLongAsItSays(t *testing.T) {
	run(t, 0, time.Second, 3, func(t *testing.T, task *Task, done *[]time.Duration) {
		task.Ask()
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Len(t, *done, 4)
	})
}
