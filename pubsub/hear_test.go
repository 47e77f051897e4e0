package pubsub_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/go-rlock/rlock/pubsub"
)

// An ear is what a subscription with Also was told.
type ear struct {
	mu   sync.Mutex // protects following
	said []string
}

func (e *ear) hear(message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.said = append(e.said, message)
}

func (e *ear) heard() []string {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.said
}

func TestWhoHearsIsToldEveryMessageInOrder(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		var e ear
		s := w.hub.Subscribe("a")
		also := s.Also("b", e.hear)
		assert.False(t, also.Confirmed())
		assert.True(t, isMarked(s), "by the confirmations")
		assert.True(t, also.Confirmed())
		assert.True(t, s.Confirmed())

		for _, message := range []string{"one", "two", ""} {
			w.Publish("b", message)
		}
		assert.Equal(t, []string{"one", "two", ""}, e.heard())
		assert.False(t, isMarked(s), "what is heard sets no mark")
		w.Publish("a", "three")
		assert.True(t, isMarked(s))
		assert.Len(t, e.heard(), 3)

		also.Close()
		w.Publish("b", "four")
		assert.Len(t, e.heard(), 3)
		assert.NoError(t, s.Refused(), "the other goes on")
	})
}

func TestWhatIsHeardMarksTheOtherWhenItIsConfirmedAgain(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		s := w.hub.Subscribe("a")
		assert.True(t, isMarked(s))
		var e ear
		also := s.Also("b", e.hear)
		assert.True(t, isMarked(s))

		s.Close() // so that only the other channel is left to be confirmed
		w.net.Cut()
		w.net.Refuse()
		synctest.Wait()
		assert.False(t, also.Confirmed())
		w.net.Heal()
		awaitMark(t, s)
		assert.True(t, also.Confirmed())
		w.Publish("b", "again")
		assert.Equal(t, []string{"again"}, e.heard())
	})
}

func TestAlsoOfAConfirmedChannelSetsNoMark(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		w.hub.Subscribe("b")
		s := w.hub.Subscribe("a")
		assert.True(t, isMarked(s))
		var e ear
		assert.True(t, s.Also("b", e.hear).Confirmed())
		assert.False(t, isMarked(s))
		w.Publish("b", "one")
		assert.Equal(t, []string{"one"}, e.heard())
	})
}

// A room subscribes under the mutex that its hearer takes.
func TestWhoHearsMayCallTheHub(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		s := w.hub.Subscribe("a")
		awaitMark(t, s)
		var also *pubsub.Subscription
		heard := false
		also = s.Also("b", func(string) {
			heard = also.Confirmed()
			w.hub.Subscribe("c").Close()
			also.Close()
		})
		synctest.Wait()
		w.Publish("b", "one")
		synctest.Wait()
		assert.True(t, heard)
	})
}
