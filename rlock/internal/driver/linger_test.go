package driver

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/internal/explore/server"
	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// lingerer returns a client whose locks linger, and which can be called.
func (f *fake) lingerer(t *testing.T) *Client {
	c := f.join(func(config *client.Config) { config.NoClientChannel, config.Linger = false, time.Hour })
	first := NewLock(c, client.PlainKind, "first")
	use(t, &first)
	synctest.Wait()
	require.True(t, c.shared.Hears())
	return c
}

// use locks and unlocks.
func use(t *testing.T, l *Lock) {
	t.Helper()
	o := terms.NewOwner()
	require.NoError(t, l.Take(t.Context(), request(o)))
	require.NoError(t, l.Unlock(t.Context(), o))
}

// lingers reports whether the lock is held in Redis, and by no level here.
func (f *fake) lingers(name string) bool {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	redis := f.at(name)
	redis.Expire(server.Time(time.Since(f.start)))
	return len(redis.Holders) > 0
}

// called is what the client is told when another one waits for its lock.
func (f *fake) called(c *Client) {
	f.mu.Lock()
	holder := f.server.Holders[0]
	f.mu.Unlock()
	holder.ID.Client = thisClient
	c.Heard(wire.ClientMessage{Verb: wire.Wanted, Owner: c.textOf(holder.ID, holder.Owner, 0), Text: key})
	synctest.Wait()
}

func TestALockThatLingersIsUsedWithoutACommandUntilItIsCalled(t *testing.T) {
	bubbleOf(t, client.PlainKind, func(t *testing.T, f *fake) {
		c := f.lingerer(t)
		use(t, c.lock())
		sent := len(f.sent)
		for range 10 {
			use(t, c.lock())
		}
		assert.Len(t, f.sent, sent)
		require.True(t, f.lingers(key))
		f.called(c)
		assert.False(t, f.lingers(key))
	})
}

// Two processes that use a lock in turn call one another each time. A name that is called back again and again without use
// in between does not linger for a time, which grows.
func TestALockThatIsCalledBackInARowDoesNotLingerForATime(t *testing.T) {
	bubbleOf(t, client.PlainKind, func(t *testing.T, f *fake) {
		c := f.lingerer(t)
		for _, pause := range []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second} {
			use(t, c.lock())
			require.True(t, f.lingers(key))
			f.called(c)
			require.False(t, f.lingers(key))
			if pause > 0 {
				time.Sleep(pause - time.Millisecond)
				use(t, c.lock())
				assert.False(t, f.lingers(key), "after less than %v", pause)
				time.Sleep(time.Millisecond)
			}
		}
		use(t, c.lock())
		use(t, c.lock())
		f.called(c)
		use(t, c.lock())
		assert.True(t, f.lingers(key), "it was of use that it lingered")
	})
}

// A foreign client cannot call.
func TestANameOnWhichAForeignClientWasMetDoesNotLinger(t *testing.T) {
	bubbleOf(t, client.PlainKind, func(t *testing.T, f *fake) {
		c := f.lingerer(t)
		foreign := core.Ticket{ID: core.ID{Client: server.FirstForeign, N: 1}, Owner: 7}
		f.mu.Lock()
		require.True(t, f.server.ForeignEnters(foreign, core.Span(time.Second), server.Time(time.Since(f.start))))
		f.mu.Unlock()
		use(t, c.lock())
		assert.False(t, f.lingers(key))
		time.Sleep(foreignMemory - 10*time.Second)
		use(t, c.lock())
		assert.False(t, f.lingers(key))
		time.Sleep(11 * time.Second)
		use(t, c.lock())
		assert.True(t, f.lingers(key))
	})
}

// Each shard lets so many locks linger. The oldest makes room for the next.
func TestTheLocksThatLingerAreBounded(t *testing.T) {
	bubbleOf(t, client.PlainKind, func(t *testing.T, f *fake) {
		c := f.lingerer(t)
		shard := c.lock().driver.shardOf(c.lock().Name)
		var names []string
		for i := 0; len(names) < maxLingering+10; i++ {
			l := NewLock(c, client.PlainKind, fmt.Sprint("many ", i))
			if c.shardOf(l.Name) != shard || l.Name.Key == "first" {
				continue
			}
			names = append(names, l.Name.Key)
			use(t, &l)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		for i, name := range names {
			assert.Equal(t, i >= 10, f.lingers(name), "%d", i)
		}
		assert.Equal(t, maxLingering, shard.lingering.Len())
	})
}
