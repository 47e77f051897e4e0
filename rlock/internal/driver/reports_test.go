package driver

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/terms"
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

// Each change of a tenure's want or place is a line of the log, if that is asked for.
func TestWhatIsDecidedIsLoggedOnRequest(t *testing.T) {
	for _, logs := range []bool{false, true} {
		bubble(t, func(t *testing.T, f *fake) {
			var text strings.Builder
			leave := func(groups []string, a slog.Attr) slog.Attr {
				switch a.Key {
				case "want", "place", "wanted", "was", "lock":
					return a
				}
				return slog.Attr{}
			}
			c := f.join(func(c *Config) {
				c.LogSteps = logs
				c.Logger = slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: leave}))
			})
			l, o := c.lock(), terms.Owner{ID: 7}
			require.NoError(t, l.Take(t.Context(), request(o)))
			require.NoError(t, l.Unlock(t.Context(), o))
			synctest.Wait()
			want := `lock=orders:42 want=Asked place=Out wanted=Gone was=Out
lock=orders:42 want=Asked place=Unsure wanted=Asked was=Out
lock=orders:42 want=Asked place=Owner wanted=Asked was=Unsure
lock=orders:42 want=Held place=Owner wanted=Asked was=Owner
lock=orders:42 want=Gone place=Owner wanted=Held was=Owner
lock=orders:42 want=Gone place=Out wanted=Gone was=Owner
`
			if !logs {
				want = ""
			}
			assert.Equal(t, want, text.String())
		})
	}
}
