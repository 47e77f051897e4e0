package driver

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// A stuck is a handler that takes a record when it is told to.
type stuck struct {
	slog.Handler
	goes chan struct{}
	took []string
}

func (h *stuck) Enabled(context.Context, slog.Level) bool { return true }

func (h *stuck) Handle(_ context.Context, r slog.Record) error {
	<-h.goes
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += fmt.Sprint(" ", a); return true })
	h.took = append(h.took, text)
	return nil
}

func TestASlowLoggerGetsAThousandMessagesInOrderAndTheNumberItMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &stuck{goes: make(chan struct{})}
		log, notices := newLogger(slog.New(h))
		log.Info("0")
		synctest.Wait() // the handler has it
		for i := 1; i <= maxMessages+7; i++ {
			log.Info(fmt.Sprint(i))
		}
		close(h.goes)
		notices.close()
		for i, text := range h.took[:maxMessages+1] {
			assert.Equal(t, fmt.Sprint(i), text)
		}
		assert.Equal(t, []string{"rlock: the Logger was too slow: messages were dropped count=7"}, h.took[maxMessages+1:])
	})
}
