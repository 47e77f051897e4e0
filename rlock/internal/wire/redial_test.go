package wire_test

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/inmemory"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// moving runs a test with a client whose address leads to the first server, and to the second once
// move is called. Connections stay where they were opened. The client has a direct connection.
func moving(t *testing.T, run func(t *testing.T, l *lone, old *inmemory.Server, move func())) {
	t.Helper()
	t.Parallel()
	redistest.WithoutServer(t)
	redistest.Virtual(t, func(t *testing.T) {
		var at atomic.Pointer[inmemory.Server]
		first, second := inmemory.New(), inmemory.New()
		t.Cleanup(first.Close)
		t.Cleanup(second.Close)
		at.Store(first)
		option := first.Options()
		option.DialCtxFn = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return at.Load().Dial() }
		l := &lone{t: t}
		l.connect(option)
		for range 10 {
			require.NoError(t, l.answer())
			synctest.Wait() // a connection may be opened in the background
		}
		require.True(t, l.HasDirect())
		run(t, l, first, func() { at.Store(second) })
	})
}

// answer returns the answer to the command: nil, or the error of the server or the connection.
func (l *lone) answer() error {
	result := l.ask(l.t.Context())
	if err := result.Error(); !rueidis.IsRedisNil(err) {
		_, refused := result.ToArray() // the owner has the lock already
		return refused
	}
	return nil
}

// refuses makes a server refuse scripts, as one that is no primary does.
func refuses(s *inmemory.Server, reply string) {
	s.Refuse(func(command string, _ ...string) string {
		if command == "evalsha" || command == "eval" {
			return reply
		}
		return ""
	})
}

func TestACommandThatIsRefusedByAFormerPrimaryFollowsTheAddress(t *testing.T) {
	for _, reply := range []string{
		"READONLY You can't write against a read only replica.",
		"ERR Error running script (call to f_52a0): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.", // Redis 6
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"CLUSTERDOWN The cluster is down", "NOREPLICAS Not enough good replicas to write.", "LOADING Redis is loading the dataset in memory",
	} {
		t.Run(reply, func(t *testing.T) {
			moving(t, func(t *testing.T, l *lone, old *inmemory.Server, move func()) {
				generation := l.Generation()
				refuses(old, reply)
				move()
				require.ErrorContains(t, l.answer(), strings.TrimPrefix(reply, "ERR "))
				synctest.Wait() // the connection ends
				assert.Greater(t, l.Generation(), generation, "as after any connection that has ended")
				for range 20 {
					require.NoError(t, l.answer())
					synctest.Wait()
				}
				assert.True(t, l.HasDirect(), "the direct connection follows")
			})
		})
	}
}

func TestAConnectionIsKeptAfterOtherRefusals(t *testing.T) {
	for _, reply := range []string{"OOM command not allowed", "NOPERM this user has no permissions", "MISCONF Redis is configured", "BUSY Redis is busy"} {
		t.Run(reply, func(t *testing.T) {
			moving(t, func(t *testing.T, l *lone, old *inmemory.Server, _ func()) {
				refuses(old, reply)
				generation := l.Generation()
				for range 3 {
					require.Error(t, l.answer())
					time.Sleep(time.Minute)
				}
				assert.Equal(t, generation, l.Generation())
			})
		})
	}
}

// A server that goes on refusing is connected with anew once a second, or every five seconds, at
// most, and its answers are those of the server in between.
func TestConnectionsAreEndedAtABoundedRate(t *testing.T) {
	for reply, most := range map[string]int64{"READONLY": 60, "LOADING": 12} {
		t.Run(reply, func(t *testing.T) {
			moving(t, func(t *testing.T, l *lone, old *inmemory.Server, _ func()) {
				refuses(old, reply)
				for range 6000 {
					_ = l.answer()
					time.Sleep(10 * time.Millisecond)
				}
				assert.InDelta(t, most, old.Calls()["quit"], 1)
			})
		})
	}
}

func TestAQuestionThatAReplicaAnswersFollowsTheAddress(t *testing.T) {
	moving(t, func(t *testing.T, l *lone, old *inmemory.Server, move func()) {
		old.SetRole("slave")
		ask := func() error {
			_, err := l.Survey(t.Context(), l.order.Slot, l.Arbitrary("lock", "EXISTS"))
			return err
		}
		begin := time.Now()
		assert.ErrorIs(t, ask(), wire.ErrReplica)
		assert.LessOrEqual(t, time.Since(begin), l.Patience)
		assert.ErrorIs(t, l.AtPrimary(t.Context()), wire.ErrReplica)

		move()
		time.Sleep(time.Second)
		assert.NoError(t, ask())
		assert.NoError(t, l.AtPrimary(t.Context()))
	})
}

// A source of a user may return any error: it is not the server's, and ends no connection.
func TestWhatASourceReturnsEndsNoConnection(t *testing.T) {
	moving(t, func(t *testing.T, l *lone, _ *inmemory.Server, _ func()) {
		generation := l.Generation()
		for _, direct := range []bool{true, false} {
			limit, ok := l.Limits(l.order.Slot).Asks.TryEnter()
			require.True(t, ok)
			for _, how := range []string{"error_reply('LOADING x')", "error_reply('READONLY x')", "pcall('evalsha', 'x')"} {
				result, _ := l.Send(t.Context(), wire.Order{
					Call: wire.ScriptOf("return redis." + how).Call(0), Slot: l.order.Slot, First: direct, At: time.Now(), HasSource: true,
				})
				require.Error(t, result.Error())
				synctest.Wait()
			}
			limit.FreeSlot()
		}
		assert.Equal(t, generation, l.Generation())
	})
}
