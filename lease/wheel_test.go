package lease_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-rlock/rlock/lease"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	tick = 10 * time.Millisecond
	turn = 512 * tick // of the whole wheel
)

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// advance returns the entries that the wheel yields at a time after epoch.
func advance(w *lease.Wheel, to time.Duration) []*lease.Entry {
	var due []*lease.Entry
	w.Advance(epoch.Add(to), func(e *lease.Entry) { due = append(due, e) })
	return due
}

func TestAnEntryInThePastIsDueWithTheNextTick(t *testing.T) {
	w := lease.NewWheel(epoch, tick)
	advance(w, time.Minute)
	var past, before lease.Entry
	w.Schedule(&past, epoch.Add(time.Second))
	w.Schedule(&before, epoch.Add(-time.Hour))
	assert.Empty(t, advance(w, time.Minute))
	assert.Len(t, advance(w, time.Minute+tick), 2)
}

func TestNextIsTheTimeOfTheNextOccupiedSlot(t *testing.T) {
	w := lease.NewWheel(epoch, tick)
	_, ok := w.Next()
	require.False(t, ok, "nothing is scheduled")

	var far, near lease.Entry
	w.Schedule(&far, epoch.Add(turn+100*tick))
	at, ok := w.Next()
	require.True(t, ok)
	assert.Equal(t, 100*tick, at.Sub(epoch), "its slot is passed a turn before")

	advance(w, 100*tick)
	at, _ = w.Next()
	assert.Equal(t, turn+100*tick, at.Sub(epoch))

	w.Schedule(&near, epoch.Add(150*tick))
	at, _ = w.Next()
	assert.Equal(t, 150*tick, at.Sub(epoch))
}

func TestFlushYieldsEveryEntry(t *testing.T) {
	w := lease.NewWheel(epoch, tick)
	entries := make([]lease.Entry, 100)
	for i := range entries {
		w.Schedule(&entries[i], epoch.Add(time.Duration(i)*time.Second))
	}
	n := 0
	w.Flush(func(*lease.Entry) { n++ })
	assert.Equal(t, 100, n)
	assert.Zero(t, w.Len())
	assert.Empty(t, advance(w, time.Hour))
}

func TestAWheelNeedsATick(t *testing.T) {
	assert.Panics(t, func() { lease.NewWheel(epoch, 0) })
}

// agree plays operations, five bytes each, on a wheel and on the specification, a map from entry to
// time.
func agree(t *testing.T, play []byte) {
	w := lease.NewWheel(epoch, tick)
	entries := make([]lease.Entry, 64)
	model := make(map[*lease.Entry]time.Duration)
	var now time.Duration
	for ; len(play) >= 5; play = play[5:] {
		e := &entries[play[0]%64]
		d := time.Duration(binary.LittleEndian.Uint32(play[1:])) * time.Microsecond
		switch play[0] / 64 {
		case 0, 1: // up to 17 s ahead, or in the past
			d = d%(17*time.Second) - time.Second
			w.Schedule(e, epoch.Add(now+d))
			// An entry must not come due before this time, nor later than a tick after it.
			model[e] = max(now+d, now/tick*tick+1)
		case 2:
			_, known := model[e]
			require.Equal(t, known, w.Stop(e))
			delete(model, e)
		case 3: // by up to 10 s, mostly by less
			now += d % (10 * time.Second >> (play[0] % 8))
			w.Advance(epoch.Add(now), func(e *lease.Entry) {
				due, known := model[e]
				require.True(t, known, "it was not scheduled")
				require.LessOrEqual(t, due, now, "early")
				delete(model, e)
			})
			for _, due := range model {
				if due+tick <= now {
					t.Fatal("late")
				}
			}
		}
		require.Equal(t, len(model), w.Len())
		at, ok := w.Next()
		require.Equal(t, len(model) > 0, ok)
		for _, due := range model {
			if at.Sub(epoch) >= due+tick {
				t.Fatal("Next would have slept past an entry")
			}
		}
	}
}

func TestTheWheelAgreesWithAMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	play := make([]byte, 5*5000)
	for range 5 {
		for i := range play {
			play[i] = byte(rnd.Uint32())
		}
		agree(t, play)
	}
}

func FuzzTheWheelAgreesWithAMap(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 1, 200, 255, 255, 255, 255, 130, 0, 0, 0, 0})
	f.Fuzz(agree)
}

func TestDriftIsAHundredthTwoMillisecondsAndATick(t *testing.T) {
	assert.Equal(t, 312*time.Millisecond, lease.Drift(30*time.Second, 10*time.Millisecond))
	assert.Equal(t, 2*time.Millisecond, lease.Drift(0, 0))
}
