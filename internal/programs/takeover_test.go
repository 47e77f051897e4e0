package programs

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-rlock/rlock/rlock"
)

// The judge of a takeover checks the taker, the end of the grace, and the next holder.
func TestWhoMayTakeALockOver(t *testing.T) {
	lost := fmt.Errorf("%w", rlock.ErrTakenOver)
	for title, told := range map[string]struct {
		taker    string        // the owner that takes the lock over
		grace    time.Duration // the grace of the call, which begins at 10 s; the hold ends at 12 s
		left     time.Duration // when that call has left; 0: it has the lock
		next     string        // the owner that has the lock at 13 s
		problems int
	}{
		"after the grace":                      {"taker", time.Second, 0, "taker", 0},
		"before the grace is over":             {"taker", 3 * time.Second, 0, "taker", 1},
		"by the owner itself":                  {"holder", time.Second, 0, "other", 2},
		"and another owner is the next":        {"taker", time.Second, 0, "other", 1},
		"and the taker has left":               {"taker", time.Second, 12500 * ms, "other", 0},
		"and the taker has left before it all": {"taker", time.Second, 2 * time.Second, "other", 2},
	} {
		t.Run(title, func(t *testing.T) {
			r := &Run{program: &Program{World: World{Calm: true}}, ground: Ground{Virtual: true}, face: NewFace(), begin: time.Now()}
			callOf := func(owner string) *call {
				return &call{c: &caller{run: r}, o: &Op{}, lock: Lock{"plain", "p"}, owner: owner, began: 10 * time.Second}
			}
			held := &grant{call: callOf("holder"), since: 9 * time.Second, over: 12 * time.Second, cause: lost}
			takes := &takeover{call: callOf(told.taker), grace: told.grace, over: told.left, got: told.left == 0}
			if takes.got {
				takes.over = 13 * time.Second
			}
			next := &grant{call: callOf(told.next), since: 13 * time.Second}
			if told.next == told.taker {
				next.call.takeover = takes
			}
			r.grants, r.takeovers = []*grant{held, next}, append(r.takeovers, takes)
			held.judgeTaken(held.over, lost)
			r.judgeTakers()
			assert.Len(t, r.problems, told.problems, "%v", r.problems)
		})
	}
}
