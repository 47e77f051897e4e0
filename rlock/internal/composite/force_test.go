package composite

import (
	"errors"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A letter is the owner that a server shows, "-" a free server, and "?" a server with a fault.
func TestARedLockIsReleasedByForceFromItsHolderAlone(t *testing.T) {
	for _, c := range []struct{ shown, left string }{
		{"AAA", "---"},
		{"AA-", "---"},
		{"AAB", "--B"}, // B waits, and would count its part for two round trips more
		{"BAA", "B--"},
		{"AB-", "AB-"}, // two attempts
		{"ABC", "ABC"},
		{"A--", "A--"},
		{"---", "---"},
		{"A-?", "--?"}, // A may have the third part
		{"AB?", "--?"},
		{"AAAAA", "-----"},
		{"AAABB", "---BB"},
		{"AABBC", "AABBC"},
		{"AABB?", "----?"},
		{"AAB-?", "--B-?"},
		{"A-B??", "---??"},
	} {
		virtual(t, func(t *testing.T, f *fleet) {
			servers, l := f.servers(len(c.shown))
			owners := make(map[rune]contract.Owner)
			for i, r := range c.shown {
				switch r {
				case '-':
				case '?':
					servers[i].err = errors.New("a fault")
				default:
					if _, ok := owners[r]; !ok {
						owners[r] = contract.NewOwner()
					}
					servers[i].occupyAs(owners[r])
				}
			}
			freed, err := l.ForceUnlock(t.Context())
			require.NoError(t, err)
			left := []byte(c.shown)
			for i, s := range servers {
				if s.err == nil && s.held() == 0 {
					left[i] = '-'
				}
			}
			assert.Equal(t, c.left, string(left), c.shown)
			assert.Equal(t, c.left != c.shown, freed, c.shown)
		})
	}
}

// A hand-off inside a process is shown by one server after the other.
func TestARedLockIsReleasedByForceOnceItsHolderIsShown(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		servers, l := f.servers(3)
		a, b, c := contract.NewOwner(), contract.NewOwner(), contract.NewOwner()
		first, second := servers[0].occupyAs(b), servers[1].occupyAs(c)
		servers[2].occupyAs(a)
		time.AfterFunc(3*readAgain/2, func() { // between two readings
			first.ReleaseLater()
			second.ReleaseLater()
			servers[0].occupyAs(a)
			servers[1].occupyAs(a)
		})
		freed, err := l.ForceUnlock(t.Context())
		require.NoError(t, err)
		assert.True(t, freed)
		for _, s := range servers {
			assert.Zero(t, s.held())
		}
	})
}

// A part that the holder gives back when it learns of the loss of another one is not released from
// its next holder.
func TestAMultiLockIsReleasedByForceFromItsHolderAlone(t *testing.T) {
	virtual(t, func(t *testing.T, f *fleet) {
		a, b := f.lock(f.home(), "a"), f.lock(f.home(), "b")
		b.trip = time.Second
		l := NewMulti(all(a, b))
		h, err := take(l, forever)
		require.NoError(t, err)
		next := make(chan *Hold, 1)
		go func() {
			h, err := take(l, forever)
			assert.NoError(t, err)
			next <- h
		}()
		time.Sleep(10 * time.Second)
		freed, err := l.ForceUnlock(t.Context())
		require.NoError(t, err)
		assert.True(t, freed)
		require.ErrorIs(t, h.Err(), contract.ErrLost)
		got := <-next
		time.Sleep(10 * time.Second)
		require.NoError(t, got.Err())
		require.NoError(t, got.Release(t.Context()))
	})
}
