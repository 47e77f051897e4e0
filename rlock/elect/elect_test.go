package elect_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/elect"
	"github.com/go-rlock/rlock/rlock/rlocktest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	name  = "lock:leader"
	lease = 30 * time.Second // the default
)

// bubble runs a test in virtual time, with a server.
func bubble(t *testing.T, run func(t *testing.T, server *rlocktest.Server)) {
	synctest.Test(t, func(t *testing.T) { run(t, rlocktest.NewServer(t)) })
}

// Neither an option nor a function that is nil changes the defaults.
func TestNilOptionsAreNone(t *testing.T) {
	bubble(t, func(t *testing.T, server *rlocktest.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		candidate := elect.New(server.Client(), name, nil, elect.WithOverrun(nil))
		require.ErrorIs(t, candidate.Do(ctx, nil), elect.ErrNotLeader)
		require.NoError(t, candidate.Run(ctx, func(context.Context, *rlock.Hold) error {
			server.Silence()
			time.Sleep(lease) // longer than the term: the default is called
			server.Heal()
			cancel()
			return nil
		}))
	})
}

// A replica is a process with a candidate that stands until stop.
type replica struct {
	*elect.Candidate
	client *rlock.Client
	cancel context.CancelFunc
	ended  chan error // of Run
}

// stand starts a replica, whose work ends with its context unless lead says otherwise.
func stand(t *testing.T, server *rlocktest.Server, lead func(context.Context, *rlock.Hold) error, options ...elect.Option) *replica {
	t.Helper()
	if lead == nil {
		lead = func(ctx context.Context, _ *rlock.Hold) error { <-ctx.Done(); return context.Cause(ctx) }
	}
	r := &replica{client: server.Client(), ended: make(chan error, 1)}
	r.Candidate = elect.New(r.client, name, options...)
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	go func() { r.ended <- r.Run(ctx, lead) }()
	synctest.Wait()
	return r
}

func (r *replica) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	assert.NoError(t, <-r.ended)
}

func TestOneCandidateLeadsAndTheNextOneAfterIt(t *testing.T) {
	bubble(t, func(t *testing.T, server *rlocktest.Server) {
		first, second := stand(t, server, nil), stand(t, server, nil)
		assert.NotNil(t, first.Term())
		assert.Nil(t, second.Term())

		first.stop(t)
		synctest.Wait()
		assert.Nil(t, first.Term())
		require.NotNil(t, second.Term())
		token, err := second.Term().Token()
		require.NoError(t, err)
		assert.EqualValues(t, 2, token)
		second.stop(t)
		server.AssertNothingHeld()
		assert.Equal(t, []string{"redisson_lock_token:{lock:leader}"}, server.Miniredis().Keys(), "the text is deleted")
	})
}

// Candidates of one client whose contexts carry one owner do not share the lock.
func TestTheOwnerOfAContextDoesNotLeadTwice(t *testing.T) {
	bubble(t, func(t *testing.T, server *rlocktest.Server) {
		client := server.Client()
		ctx, cancel := context.WithCancel(rlock.WithOwner(t.Context(), rlock.NewOwner()))
		defer cancel()
		leads := make(chan struct{}, 2)
		for range 2 {
			go func() {
				_ = elect.New(client, name).Run(ctx, func(ctx context.Context, _ *rlock.Hold) error {
					leads <- struct{}{}
					<-ctx.Done()
					return nil
				})
			}()
		}
		time.Sleep(time.Minute)
		assert.Len(t, leads, 1)
	})
}

func TestEveryProcessReadsTheTextOfTheLeader(t *testing.T) {
	redistest.Slow(t)
	bubble(t, func(t *testing.T, server *rlocktest.Server) {
		server.HangAfter(2 * time.Hour)
		reader := elect.New(server.Client(func(c *rlock.Config) { c.Prefix = "lock:" }), "leader")
		leads := func() string {
			text, err := reader.Leader(t.Context())
			require.NoError(t, err)
			return text
		}
		_, err := reader.Leader(t.Context())
		require.ErrorIs(t, err, elect.ErrNoLeader)

		first, second := stand(t, server, nil), stand(t, server, nil, elect.WithText("10.0.0.7:8080"))
		host, err := os.Hostname()
		require.NoError(t, err)
		for range 6 { // it is renewed with the lock
			assert.Equal(t, fmt.Sprintf("%s:%d", host, os.Getpid()), leads())
			time.Sleep(10*time.Minute + 7*time.Second)
		}
		first.stop(t)
		synctest.Wait()
		assert.Equal(t, "10.0.0.7:8080", leads())

		server.Kill(second.client)
		time.Sleep(lease + time.Second)
		_, err = reader.Leader(t.Context())
		require.ErrorIs(t, err, elect.ErrNoLeader)
		assert.Equal(t, []string{"redisson_lock_token:{lock:leader}"}, server.Miniredis().Keys())
		second.cancel()
	})
}

// The work is told after two thirds of a lease that is not renewed.
func TestWorkThatOutlivesTheLeaseIsAnOverrun(t *testing.T) {
	cut := func(s *rlocktest.Server, r *replica) { s.Cut(r.client) }
	for how, x := range map[string]struct {
		ends    func(*rlocktest.Server, *replica)
		takes   time.Duration // for the work to stop
		overrun bool
	}{
		"its client is cut off": {cut, lease, true},
		"the lock is lost":      {func(s *rlocktest.Server, _ *replica) { s.Lose(name) }, lease, true},
		"it stops in time":      {cut, lease/3 - 2*time.Second, false},
		"the lease is renewed":  {func(_ *rlocktest.Server, r *replica) { r.cancel() }, time.Hour, false},
	} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T, server *rlocktest.Server) {
				server.HangAfter(2 * time.Hour)
				var told, over time.Time
				leader := stand(t, server, func(ctx context.Context, term *rlock.Hold) error {
					<-ctx.Done()
					if !told.IsZero() {
						return nil // the test ends its second term
					}
					told = time.Now()
					time.Sleep(x.takes)
					assert.Equal(t, !x.overrun, term.Valid())
					return context.Cause(ctx)
				}, elect.WithOverrun(func() { over = time.Now() }))
				x.ends(server, leader)
				time.Sleep(2*lease + x.takes)
				synctest.Wait()
				if x.overrun {
					assert.Equal(t, lease/3, over.Sub(told).Round(time.Second))
				} else {
					assert.Zero(t, over)
				}
				server.Heal()
				leader.stop(t)
			})
		})
	}
}

func TestFunctionsOfTheTermEndBeforeItsRelease(t *testing.T) {
	bubble(t, func(t *testing.T, server *rlocktest.Server) {
		enough := make(chan struct{})
		first, second := stand(t, server, nil), stand(t, server, func(context.Context, *rlock.Hold) error { <-enough; return nil })
		never := func(context.Context) error { t.Error("called"); return nil }
		require.ErrorIs(t, second.Do(t.Context(), never), elect.ErrNotLeader)

		failed := errors.New("failed")
		require.ErrorIs(t, first.Do(t.Context(), func(context.Context) error { return failed }), failed)

		var over atomic.Bool
		done := make(chan error, 1)
		go func() {
			done <- first.Do(t.Context(), func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Minute)
				over.Store(true)
				return context.Cause(ctx)
			})
		}()
		synctest.Wait()
		first.cancel()
		time.Sleep(30 * time.Second)
		require.ErrorIs(t, first.Do(t.Context(), never), elect.ErrNotLeader)
		assert.Nil(t, first.Term(), "its lock is held")
		assert.Nil(t, second.Term())
		assert.NoError(t, <-first.ended)
		assert.True(t, over.Load())
		assert.Error(t, <-done)
		synctest.Wait()
		assert.NotNil(t, second.Term())
		go func() {
			done <- second.Do(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
		}()
		synctest.Wait()
		close(enough)
		assert.ErrorIs(t, <-done, context.Canceled, "lead has returned")
		assert.NoError(t, <-second.ended)
	})
}

func TestRunReturnsTheErrorOfLead(t *testing.T) {
	failed := errors.New("failed")
	for what, test := range map[string]struct {
		lead func(ctx context.Context) error
		err  error
	}{
		"an error at once":        {func(context.Context) error { return failed }, failed},
		"nothing, it has enough":  {func(context.Context) error { return nil }, nil},
		"an error after the loss": {func(ctx context.Context) error { <-ctx.Done(); return failed }, failed},
		"a context of its own":    {func(context.Context) error { return context.Canceled }, context.Canceled},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, server *rlocktest.Server) {
				leader := stand(t, server, func(ctx context.Context, _ *rlock.Hold) error { return test.lead(ctx) })
				if leader.Term() != nil {
					server.Lose(name)
				}
				assert.ErrorIs(t, <-leader.ended, test.err)
				server.AssertNothingHeld()
			})
		})
	}
}

func TestRunReturnsTheErrorOfAClosedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader := stand(t, rlocktest.NewServer(t), nil)
		require.NoError(t, leader.client.Close())
		require.ErrorIs(t, <-leader.ended, rlock.ErrClosed)
		assert.Nil(t, leader.Term())
	})
}

func TestAProcessHearsOfEachNewLeader(t *testing.T) {
	bubble(t, func(t *testing.T, server *rlocktest.Server) {
		watching := server.Client()
		observer := elect.New(watching, name)
		heard := make(chan string, 10)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- observer.Observe(ctx, func(leader string) { heard <- leader }) }()
		time.Sleep(time.Minute)
		assert.Empty(t, heard, "no process leads")

		first, second := stand(t, server, nil, elect.WithText("a")), stand(t, server, nil, elect.WithText("b"))
		time.Sleep(time.Minute)
		first.stop(t)
		time.Sleep(3 * time.Second)
		server.Cut(watching)
		time.Sleep(time.Minute)
		server.Heal(watching)
		server.Lose(name)
		time.Sleep(time.Minute)
		second.stop(t)
		close(heard)
		var leaders []string
		for leader := range heard {
			leaders = append(leaders, leader)
		}
		assert.Equal(t, []string{"a", "b", "b"}, leaders, "the second one leads again after its loss")
		cancel()
		require.NoError(t, <-ended)

		require.NoError(t, watching.Close())
		require.ErrorIs(t, observer.Observe(t.Context(), nil), rlock.ErrClosed)
	})
}

func TestACandidateStandsOnce(t *testing.T) {
	bubble(t, func(t *testing.T, server *rlocktest.Server) {
		leader := stand(t, server, nil)
		require.ErrorIs(t, leader.Run(t.Context(), nil), elect.ErrRunning)
		assert.NotNil(t, leader.Term())
		leader.stop(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, leader.Run(ctx, nil), "again, since the first one is over")
	})
}

func TestAStandbyLogsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder // used by one client
		server := rlocktest.NewServer(t)
		server.HangAfter(2 * time.Hour)
		leader := stand(t, server, nil)
		standby := server.Client(func(c *rlock.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- elect.New(standby, name).Run(ctx, nil) }()
		time.Sleep(time.Hour)
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, standby.Close())
		assert.Empty(t, log.String())
		leader.stop(t)
	})
}

// What Redis refuses, an operator may cure: candidates, and observers, go on by themselves, whether
// they lead or stand by. Afterwards one leads.
func TestCandidatesOutlastWhatRedisRefuses(t *testing.T) {
	for _, refusal := range []string{
		"NOPERM this user has no permissions to run the 'evalsha' command",
		"WRONGTYPE Operation against a key holding the wrong kind of value",
		"ERR unknown command 'evalsha'",
		"ERR something else",
	} {
		bubble(t, func(t *testing.T, server *rlocktest.Server) {
			var logged strings.Builder
			before := slog.Default()
			slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
			defer slog.SetDefault(before)
			first, second := stand(t, server, nil), stand(t, server, nil)
			observing, stop := context.WithCancel(t.Context())
			var heard atomic.Int32
			observed := make(chan error, 1)
			go func() { observed <- second.Observe(observing, func(string) { heard.Add(1) }) }()
			time.Sleep(time.Second)
			require.EqualValues(t, 1, heard.Load())
			server.Refuse(refusal, "evalsha", "eval", "hlen")
			third := stand(t, server, nil)
			time.Sleep(2*lease + 3*time.Second)
			for _, r := range []*replica{first, second, third} {
				assert.Nil(t, r.Term(), refusal)
			}
			server.Heal()
			replicas := []*replica{first, second, third}
			leads := func() (leaders int) {
				for _, r := range replicas {
					if r.Term() != nil {
						leaders++
					}
					assert.Empty(t, r.ended, refusal)
				}
				return leaders
			}
			time.Sleep(15 * time.Second)
			assert.Equal(t, 1, leads(), refusal)
			assert.EqualValues(t, 2, heard.Load(), refusal)

			server.Refuse(refusal, "evalsha", "eval", "hlen")
			server.Lose(name)
			time.Sleep(3 * time.Second)
			server.Heal()
			time.Sleep(4 * time.Second)
			assert.Equal(t, 1, leads(), "the pauses are short again: %s", refusal)
			assert.GreaterOrEqual(t, heard.Load(), int32(3), "and perhaps of a late grant, which is given back at once: %s", refusal)
			stop()
			assert.NoError(t, <-observed)
			messages := strings.Count(logged.String(), "elect: the lock cannot be used")
			assert.Positive(t, messages)
			assert.LessOrEqual(t, messages, 4*2, "of each, one a minute")
			server.Refuse(refusal, "evalsha", "eval")
			for _, r := range replicas {
				r.stop(t) // also in a pause
			}
			server.Heal()
		})
	}
}
