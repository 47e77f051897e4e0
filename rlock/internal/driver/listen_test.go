package driver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Any user may publish on the channel of a client's grants. Locks of other names and kinds may
// share it.
func TestAMessageThatGrantsNoTicketOfTheLockIsIgnored(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		here, there := f.join(nil), f.join(nil)
		h := holds(t, there.lock())
		l := here.lock()
		o, got := takes(t.Context(), l)
		synctest.Wait()
		f.mu.Lock()
		waits := f.server.Queue[0]
		f.mu.Unlock()
		id := waits.ID
		id.Client = wire.ThisClient
		ticket := here.textOf(id, waits.Owner, 0)
		id.N += 1000
		prefix := here.ID.Prefix
		for _, message := range []string{
			"", " ", ticket, "+" + ticket, "+" + ticket + "   ", "+" + ticket + "   {" + key + "}", "+" + ticket + "   " + key + " ",
			"?" + ticket + " {" + key + "}", "+" + prefix + "  " + " " + key, "+" + prefix + "0   " + key, "?" + prefix + " " + key,
			"+" + prefix + "8e0f-112233445566:   " + key, "+" + there.textOf(id, 1, 0) + " 1 1 " + key,
		} {
			here.hear(l.Name, message)
			synctest.Wait()
			require.Empty(t, got, message)
		}
		sent := len(f.sent)
		here.hear(l.Name, "+"+here.textOf(id, 1, 0)+" 1 1 "+key)
		time.Sleep(time.Second)
		require.Empty(t, got, "a ticket that no caller waits for is given back, whether it has the lock or not")
		assert.Equal(t, []core.Op{core.Leave}, f.ops(core.Leave))
		assert.Equal(t, sent+1, len(f.sent))
		require.NoError(t, h.Release(t.Context()))
		require.NoError(t, <-got)
		require.NoError(t, l.Unlock(t.Context(), o))
		f.isClean()
	})
}

// Any user may publish on the client's own channel. A message about a tenure of this client makes
// it ask, however many there are.
func TestAMessageToTheClientMakesItAsk(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		h := holds(t, c.lock())
		one := f.server.Holders[0]
		one.ID.Client = wire.ThisClient
		owner := c.textOf(one.ID, one.Owner, 0)
		one.ID.N++
		asked := func() int {
			time.Sleep(10 * time.Millisecond)
			return f.count(core.Mirror)
		}
		for _, m := range []wire.ClientMessage{
			{Verb: wire.Forced, Owner: owner, Text: "another"}, {Verb: wire.Forced, Owner: c.textOf(one.ID, one.Owner, 0), Text: key},
			{Verb: wire.Forced, Owner: owner[:30], Text: key}, {Verb: wire.Forced, Owner: foreignOwner, Text: key},
		} {
			c.heard(m.String())
			assert.Zero(t, asked(), "%+v", m)
		}
		for range 1000 {
			c.heard(wire.ClientMessage{Verb: wire.Forced, Owner: owner, Text: key}.String())
		}
		assert.Positive(t, asked())
		require.NoError(t, h.Err(), "Redis still shows the lock")
		for range 1000 {
			c.heard(wire.ClientMessage{Verb: wire.Forced, Owner: owner, Text: key}.String())
			time.Sleep(100 * time.Microsecond)
		}
		assert.LessOrEqual(t, asked(), 120, "once a millisecond")
		f.forgets()
		c.heard(wire.ClientMessage{Verb: wire.Forced, Owner: owner, Text: key}.String())
		told := time.Now()
		<-h.Context().Done()
		require.ErrorIs(t, h.Err(), terms.ErrLost)
		assert.Less(t, time.Since(told), 5*time.Millisecond)
	})
}
