package calls_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// answering are the kinds of locks that have answers.
var answering = testbed.LocksOf("plain", "fenced", "fair")

// A release whose script returns a string answers those that wait for an answer, and grants the lock to the first of the others.
// It takes one command, and those that are answered send none.
func TestAReleaseAnswersThoseThatWaitForAnAnswer(t *testing.T) {
	redistest.Over(t, testbed.OneOrMany, func(t *testing.T, server *redistest.Server) {
		for name, lock := range answering {
			t.Run(name, func(t *testing.T) {
				s := testbed.At(t, server)
				hold := acquired(t, s, lock(s.NewClient()))
				type end struct {
					answer terms.Answer
					hold   *rlock.Hold
					err    error
				}
				ends := make(chan end, 4)
				waits := func(n int64, options ...rlock.AcquireOption) {
					l := lock(s.NewClient())
					var e end
					go func() {
						e.hold, e.err = l.Acquire(s.Ctx, append(options, withAnswer(&e.answer))...)
						ends <- e
					}()
					s.AwaitWaiters(n, testbed.Key)
				}
				plain := lock(s.NewClient())
				waits(1)
				next := make(chan error, 1)
				go func() {
					var err error
					hold, err := plain.Acquire(s.Ctx)
					next <- err
					if err == nil {
						next <- hold.Release(s.Ctx)
					}
				}()
				s.AwaitWaiters(2, testbed.Key)
				waits(3)
				awaitListening(s)
				began := time.Now()
				_, err := hold.ReleaseWith(s.Ctx, "return 'it is 42: ' .. ARGV[1]", nil, []string{"\x00 x"})
				require.NoError(t, err)
				answered := 0
				for range 2 {
					e := <-ends
					if e.err == nil { // a look after its subscription has overtaken the message, so that it has joined again
						assert.True(t, e.answer.Waited)
						require.NoError(t, e.hold.Release(s.Ctx))
						continue
					}
					answered++
					require.ErrorIs(t, e.err, terms.ErrAnswered)
					assert.Nil(t, e.hold)
					assert.Equal(t, "it is 42: \x00 x", e.answer.Text)
					assert.True(t, e.answer.Waited)
					assert.Positive(t, e.answer.Clock)
					assert.True(t, e.answer.Read.Before(began))
				}
				assert.Positive(t, answered)
				require.NoError(t, s.Await(next), "it waits for the lock alone")
				require.NoError(t, s.Await(next))

				var answer terms.Answer
				hold = testbed.Take(t, s.Ctx, lock(s.NewClient()), withAnswer(&answer))
				assert.False(t, answer.Waited)
				assert.Empty(t, answer.Text)
				assert.Positive(t, answer.Clock)
				waits(1)
				_, err = hold.ReleaseWith(s.Ctx, "return 1", nil, nil)
				require.NoError(t, err)
				e := <-ends
				require.NoError(t, e.err, "any other reply is no answer")
				assert.True(t, e.answer.Waited)
				require.NoError(t, e.hold.Release(s.Ctx))
			})
		}
	})
}

// A condition that is met is the answer, at a free lock and at a held one; nothing is taken. One that is not met costs no command.
func TestAConditionBeforeTheLock(t *testing.T) {
	redistest.Over(t, testbed.OneOrMany, func(t *testing.T, server *redistest.Server) {
		for name, lock := range answering {
			t.Run(name, func(t *testing.T) {
				s := testbed.At(t, server)
				l, other := lock(s.NewClient()), lock(s.NewClient())
				key := l.Key("stored")
				a := terms.Answer{Unless: "return redis.call('get', KEYS[1]) or ARGV[1] == 'no' and 1", Keys: []string{key}, Args: []string{"no"}}
				hold := testbed.Take(t, s.Ctx, l, withAnswer(&a))
				assert.True(t, a.Checked)
				if name == "fenced" {
					token, err := hold.Token()
					require.NoError(t, err)
					assert.Positive(t, token)
				}
				require.NoError(t, s.Do("SET", key, "the value").Error())
				for _, wait := range []time.Duration{0, time.Minute} {
					a.Text, a.Checked = "", false
					_, err := other.Acquire(s.Ctx, withAnswer(&a), rlock.WithWait(wait)) // it is held
					require.ErrorIs(t, err, terms.ErrAnswered)
					assert.Equal(t, "the value", a.Text)
					assert.True(t, a.Checked)
					assert.False(t, a.Waited)
				}
				require.NoError(t, hold.Release(s.Ctx))
				require.ErrorIs(t, testbed.ErrorOf(other.Acquire(s.Ctx, withAnswer(&a))), terms.ErrAnswered) // it is free
				assert.Zero(t, s.Number("EXISTS", testbed.Key), "it stays free")
				a.Unless = "error('no such thing')"
				_, err := l.Acquire(s.Ctx, withAnswer(&a))
				require.ErrorContains(t, err, "no such thing")
				require.NotErrorIs(t, err, terms.ErrAnswered)
				assert.Zero(t, s.Number("EXISTS", testbed.Key))
				a.Keys = []string{testbed.Key}
				require.ErrorIs(t, testbed.ErrorOf(l.Acquire(s.Ctx, withAnswer(&a))), rlock.ErrInvalidName)
				require.NoError(t, s.Do("DEL", key).Error())
			})
		}
	})
}

// awaitListening waits until no ticket polls: the clients hear what is published from then on. An answer that is not heard is
// lost, and its call goes on waiting for the lock.
func awaitListening(s *testbed.Site) {
	s.T.Helper()
	require.Eventually(s.T, func() bool {
		members, err := s.Do("ZRANGE", "rlock_queue:{"+testbed.Key+"}", "0", "-1").AsStrSlice()
		return err == nil && !slices.ContainsFunc(members, func(m string) bool { return m[0] >= 'A' && m[0] <= 'Z' })
	}, testbed.Hang, time.Millisecond)
}

func TestKindsWithoutAnswers(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		c := w.NewClient()
		for name, l := range map[string]*rlock.Lock{
			"read": c.NewReadWriteLock("a").Read(), "write": c.NewReadWriteLock("a").Write(), "semaphore": c.NewSemaphore("b", 2),
			"multi": rlock.NewMultiLock(c.NewLock("d"), c.NewLock("e")),
		} {
			_, err := l.Acquire(w.Ctx, withAnswer(new(terms.Answer)))
			assert.ErrorIs(t, err, errors.ErrUnsupported, name)
		}
	})
}

// withAnswer is the option of package once.
func withAnswer(a *terms.Answer) rlock.AcquireOption {
	return terms.WithAnswer(a)
}
