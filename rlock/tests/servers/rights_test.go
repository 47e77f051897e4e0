package servers_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/go-rlock/rlock/rlock/once"
	"github.com/go-rlock/rlock/rlock/once/idempotent"
	"github.com/go-rlock/rlock/rlock/redisson"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// inTheQueue stands for a right that a step of the queue needs: the waiter fails, or the
// holder before it, whichever comes first.
const inTheQueue = "a step of the queue"

// perhaps stands for a right that is needed only if the machine is slow.
const perhaps = "a step that is late"

// unhurried returns a config whose calls may take as long as a busy machine needs. It is for users
// who lack nothing: where a right is missing, Close waits until the lease ends, which is an hour
// here.
func unhurried(c rlock.Config) rlock.Config {
	c.Lease, c.Redis = time.Hour, testbed.Patient(c.Redis)
	return c
}

// refused returns the call that fails first with ErrNoPermission for a user without one of
// the rights of a Lock, or "" if all calls work. major is the server's version.
func refused(major int) map[string]string {
	refused := map[string]string{
		"~orders:*":                         "Acquire",
		"~redisson_lock__channel:{orders:*": inTheQueue, // the channel is one of a step's keys
		"&redisson_lock__channel:{orders:*": "Unlock",   // the right to publish; a client that may not subscribe polls
		"~rlock_queue:{orders:*":            "Acquire",
		"~rlock_foreign:{orders:*":          inTheQueue,
		"&rlock_grants:{orders:*":           "", // it polls
		"&rlock_grants:client:*":            "", // a loss is told later
		"+evalsha":                          "Acquire",
		"+eval":                             "Acquire", // the server has not seen the scripts
		"+exists":                           "Acquire",
		"+hexists":                          "TryLock of a held lock",
		"+hget":                             "renewal",
		"+hset":                             "Acquire",
		"+hdel":                             "Unlock",
		"+hkeys":                            "renewal",
		"+pexpire":                          "Acquire",
		"+pttl":                             "TTL",
		"+zadd":                             inTheQueue,
		"+zrange":                           inTheQueue,
		"+zrangebyscore":                    inTheQueue,
		"+zscore":                           perhaps, // only to look for a ticket behind others, which takes seconds
		"+zrem":                             inTheQueue,
		"+hmget":                            "", // only for clients of Redisson
		"+zcount":                           "", // clients are not told that others wait
		"+time":                             "",
		"+ping":                             "", // a refusal proves as well that the server is alive; ACL LOG fills

		"+publish":       "Unlock",
		"+subscribe":     "", // it polls
		"+pubsub|numsub": "", // the client assumes that others wait

		"+role": "New",

		"+spublish":           "Unlock",
		"+ssubscribe":         "",
		"+pubsub|shardnumsub": "New",
		"+cluster|slots":      "New",
		"+cluster|shards":     "",
	}
	if major >= 8 { // which rueidis asks for its shards
		refused["+cluster|slots"], refused["+cluster|shards"] = "", "New"
	}
	return refused
}

func TestAUserNeedsTheDocumentedRightsAndEachMissingOneIsReported(t *testing.T) {
	t.Parallel()
	for kind, start := range map[redistest.Kind]func(testing.TB, ...string) *redistest.Server{
		redistest.KindStandalone: redistest.Standalone,
		redistest.KindSentinel:   redistest.Sentinel,
		redistest.KindCluster:    redistest.Cluster,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := testbed.At(t, start(t))
			rules := s.Rights(s.AclLines()...)
			refused := refused(s.Major())
			if s.Family() == testbed.Sharded {
				refused["+publish"] = "" // only for the clients' own channels
			}
			without := func(rule string) rlock.Config {
				return s.Limited(slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return r == rule })...)
			}
			assert.Empty(t, s.Rehearse(testbed.Key, unhurried(s.Limited(rules...))), "all rights are given")

			try := func(rule string) {
				t.Run("without "+rule, func(t *testing.T) {
					s, name := s.In(t), testbed.Key+strings.ReplaceAll(rule, "{", "") // a brace would make another tag of it
					says, known := refused[rule]
					require.True(t, known, "no reason is documented")
					if says == "" {
						assert.Empty(t, s.Rehearse(name, unhurried(without(rule))))
						return
					}
					failed := s.Rehearse(name, without(rule))
					for range 20 { // a client that is subscribed too late takes a free lock without the queue
						if says != inTheQueue || len(failed) > 0 {
							break
						}
						failed = s.Rehearse(name, without(rule))
					}
					err := failed[says]
					if says == inTheQueue {
						err = errors.Join(slices.Collect(maps.Values(failed))...)
					}
					if says != perhaps {
						assert.ErrorIs(t, err, rlock.ErrNoPermission)
					}
					for what, err := range failed {
						// A lock that was not locked is not held, and a process that has no
						// processor for two seconds loses a lock that was handed to it before it
						// hears of the refusal.
						told := errors.Is(err, rlock.ErrNoPermission) || errors.Is(err, rlock.ErrNotHeld) || errors.Is(err, rlock.ErrLost)
						assert.True(t, told, "%s: %v", what, err)
					}
					assert.Eventually(t, func() bool {
						left, err := s.Do("EXISTS", name).AsInt64()
						return err == nil && left == 0
					}, testbed.Hang, 10*time.Millisecond, "a lock stays behind")
				})
			}
			s.Forget()
			try("+eval") // while no other client loads the scripts
			var rows sync.WaitGroup
			places := make(chan struct{}, 6) // most of the time the rows wait; all at once would keep each from its lock
			for _, rule := range rules {
				if rule != "+eval" && (kind != redistest.KindSentinel || rule == "+role") { // the others are those of one server
					rows.Go(func() {
						places <- struct{}{}
						defer func() { <-places }()
						try(rule)
					})
				}
			}
			if kind == redistest.KindCluster {
				config := without("+pubsub|shardnumsub")
				config.Advanced.PubSub = rlock.PubSubPlain
				if s.HasShardedPubSub() {
					config.Advanced.PubSub = rlock.PubSubSharded
				}
				assert.Empty(t, s.Rehearse(testbed.Key, unhurried(config)), "with Config.Advanced.PubSub set the client need not ask")
			}
			rows.Wait()
			if kind == redistest.KindSentinel {
				config := s.Limited(append(rules, s.Rights("SyncReplicas")...)...)
				config.SyncReplicas = 1
				assert.Empty(t, s.Rehearse(testbed.Key, unhurried(config)))
			}
		})
	}
}

// The lines are executed as they stand in docs/operations.md, one after the other.
func TestTheACLLinesOfTheDocumentsAreEnoughForEachKindOfLock(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(*rlock.Client) testbed.Locker{
		"":              func(c *rlock.Client) testbed.Locker { return c.NewFairLock(testbed.Key) }, // and every other kind
		"FencedLock":    func(c *rlock.Client) testbed.Locker { return c.NewFencedLock(testbed.Key) },
		"Semaphore":     func(c *rlock.Client) testbed.Locker { return c.NewSemaphore(testbed.Key, 1) },
		"ReadWriteLock": func(c *rlock.Client) testbed.Locker { return c.NewReadWriteLock(testbed.Key).Write() },
	}
	redistest.Over(t, []redistest.Kind{redistest.KindStandalone, redistest.KindCluster}, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		s.Listen(s.Family(), testbed.Channel) // a client of Redisson, which is counted, and has windows
		for name, newLock := range kinds {
			for _, node := range s.EachNode() {
				lines := s.AclLines()
				if name != "" {
					lines = append(lines, name)
				}
				for _, line := range lines {
					command := append([]string{"ACL", "SETUSER", "locks"}, testbed.DocumentedACL(t, line)...)
					require.NoError(t, node.Do(s.Ctx, node.B().Arbitrary(command...).Build()).Error(), line)
				}
			}
			login := func(c *rlock.Config) { c.Redis.Username, c.Redis.Password = "locks", "secret" }
			holder, other := s.NewClient(login), s.NewClient(login)
			here, there := newLock(holder), newLock(other)
			require.NoError(t, here.Lock(s.Ctx))
			require.NoError(t, here.Lock(s.Ctx))
			waits, queued := testbed.Queueing(s.Ctx)
			waiter := testbed.Start(func() error {
				if err := there.Lock(waits); err != nil {
					return err
				}
				return there.Unlock(waits)
			})
			redistest.Await(t, queued)
			require.NoError(t, here.Unlock(s.Ctx))
			require.NoError(t, here.Unlock(s.Ctx), name)
			require.NoError(t, redistest.Await(t, waiter), name)
			s.Number("DEL", "redisson_lock_token:{"+testbed.Key+"}")
		}
		for _, node := range s.EachNode() {
			require.NoError(t, node.Do(s.Ctx, node.B().Arbitrary("ACL", "DELUSER", "locks").Build()).Error())
		}
	})
}

// The line is executed as it stands in docs/operations.md.
func TestTheACLLineOfInspectIsEnoughAndEachRightOfItIsNeeded(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Standalone(t))
	lines := append(s.AclLines(), "FencedLock", "ReadWriteLock")
	inspecting := testbed.DocumentedACL(t, "Inspect and Locks")
	ask := func(without string) (i inspect.Lock, names []string, err error) {
		rules := slices.DeleteFunc(append(s.Rights(lines...), inspecting...), func(r string) bool { return r == without })
		client, err := rlock.New(s.Limited(rules...))
		require.NoError(t, err)
		defer client.Close()
		i, err = inspect.Of(client).Lock(s.Ctx, testbed.Key)
		names, failed := testbed.Names(s.Ctx, client, testbed.Key+"*")
		return i, names, errors.Join(err, failed)
	}
	holder, permits := s.NewClient(), testbed.Key+":permits"
	require.NoError(t, holder.NewFencedLock(testbed.Key).Lock(s.Ctx))
	require.NoError(t, holder.NewSemaphore(permits, 2).Lock(s.Ctx))
	i, names, err := ask("")
	require.NoError(t, err)
	require.NoError(t, i.Unresolved)
	assert.NotNil(t, i.Holders[0].Process)
	assert.NotZero(t, i.Token)
	assert.Equal(t, []string{testbed.Key, permits}, names)
	for _, right := range inspecting {
		i, _, err := ask(right)
		if right == "+client|list" || right == "+client" {
			require.NoError(t, err, "the rest of the answer still arrives")
			assert.ErrorIs(t, i.Unresolved, rlock.ErrNoPermission)
			assert.Len(t, i.Holders, 1)
			continue
		}
		assert.ErrorIs(t, err, rlock.ErrNoPermission, "without %s", right)
	}
	require.NoError(t, holder.NewFencedLock(testbed.Key).Unlock(s.Ctx))
	require.NoError(t, holder.NewSemaphore(permits, 2).Unlock(s.Ctx))
	s.Number("DEL", "redisson_lock_token:{"+testbed.Key+"}")
}

// The rights that docs/operations.md has beside the rights of a Lock are enough, and each of them
// is needed, except for some rights of waiters.
func TestTheRightsBesideThoseOfALock(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Standalone(t))
	lock := s.Rights("every lock", "one primary")
	for line, use := range map[string]func(client *rlock.Client, key string) error{
		"FencedLock": func(client *rlock.Client, key string) error {
			require.NoError(t, s.Do("SET", "redisson_lock_token:{orders:"+key+"}", "9007199254740992").Error()) // a larger token is read by GET
			return client.NewFencedLock("orders:"+key).Do(s.Ctx, testbed.Nothing)
		},
		"once": func(client *rlock.Client, key string) error {
			group := once.New(client, once.Options{Keep: time.Minute})
			defer group.Close()
			get := func(context.Context) ([]byte, error) { return []byte("value"), nil }
			_, _, first := group.Do(s.Ctx, "orders:"+key, get)
			_, _, kept := group.Do(s.Ctx, "orders:"+key, get)
			return cmp.Or(first, kept, group.Forget(s.Ctx, "orders:"+key))
		},
		"idempotent": func(client *rlock.Client, key string) error {
			guard := idempotent.New(client, idempotent.Options{Who: func(*http.Request) string { return "" }, Wait: time.Second})
			defer guard.Close()
			settles := ""
			for _, status := range []int{http.StatusServiceUnavailable, http.StatusCreated, http.StatusCreated} {
				handler := guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					settles = idempotent.Key(r.Context())
					w.WriteHeader(status)
				}))
				r, w := httptest.NewRequest(http.MethodPost, "/", nil), httptest.NewRecorder()
				r.Header.Set("Idempotency-Key", key)
				if handler.ServeHTTP(w, r); w.Code != status || settles == "" {
					return fmt.Errorf("it gets %d %s", w.Code, w.Body)
				}
			}
			return guard.Forget(s.Ctx, settles)
		},
		"synchronizers": func(client *rlock.Client, _ string) error { return rehearsed(s, redisson.New(client)) },
	} {
		t.Run(line, func(t *testing.T) {
			try := func(own []string, key string) error {
				client, err := rlock.New(s.Limited(slices.Concat(lock, own)...))
				require.NoError(t, err)
				defer client.Close()
				return use(client, key)
			}
			own := s.Rights(line)
			require.NoError(t, try(own, "all"))
			for i, right := range own {
				if !strings.HasPrefix(right, "+") && !strings.HasPrefix(right, "~{") && line != "synchronizers" {
					continue
				}
				s.Forget()
				assert.Error(t, try(slices.Delete(slices.Clone(own), i, i+1), fmt.Sprint(i)), "without %s", right)
			}
		})
	}
}

// The rights to inspect synchronizers are enough and needed, too.
func TestTheRightsToInspectSynchronizers(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Standalone(t))
	client, err := rlock.New(s.Limited(slices.Concat(s.Rights("every lock", "one primary"), s.Rights("synchronizers"), s.Rights("Inspect and Locks"), s.Rights("Names of synchronizers"))...))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	c := redisson.New(client)
	require.NoError(t, c.PermitSemaphore("orders:p").SetPermits(s.Ctx, 1))
	require.NoError(t, testbed.ErrorOf(c.PermitSemaphore("orders:p").Acquire(s.Ctx, time.Minute)))
	names, err := c.Names(s.Ctx, "orders:*")
	require.NoError(t, err)
	assert.Equal(t, []string{"orders:p"}, names)
	state, err := c.Inspect(s.Ctx, "orders:p")
	require.NoError(t, err)
	require.Len(t, state.Taken, 1)
	assert.NotNil(t, state.Taken[0].Process)
}

// rehearsed does all that the synchronizers do, up to the first error.
func rehearsed(s *testbed.Site, c *redisson.Client) error {
	ctx, cancel := context.WithTimeout(s.Ctx, time.Minute)
	defer cancel()
	for _, name := range []string{"orders:s", "orders:p", "{orders:p}:timeout", "orders:l"} {
		s.Do("DEL", name)
	}
	sem, permits, latch := c.Semaphore("orders:s"), c.PermitSemaphore("orders:p"), c.CountDownLatch("orders:l")
	var one *redisson.Permit
	for _, step := range []func() error{
		func() error { _, err := sem.TrySetPermits(ctx, 1); return err },
		func() error { _, err := sem.DrainPermits(ctx); return err },
		func() error {
			return both(ctx, func(ctx context.Context) error { return sem.Acquire(ctx, 1) }, func() error { return sem.Release(ctx, 1) })
		},
		func() error { _, err := sem.AvailablePermits(ctx); return err },
		func() error { _, err := sem.ReleaseIfExists(ctx, 1); return err },
		func() error { _, err := sem.Expire(ctx, time.Hour); return err },
		func() error { _, err := sem.Delete(ctx); return err },
		func() error { _, err := permits.TrySetPermits(ctx, 1); return err },
		func() error { _, err := permits.Acquire(ctx, time.Millisecond); return err },
		func() error { return permits.SetPermits(ctx, 2) },
		func() (err error) { one, err = permits.Acquire(ctx, 0); return err },
		func() error { _, err := permits.AcquiredPermits(ctx); return err },
		func() error { _, err := permits.UpdateLease(ctx, one.ID(), time.Minute); return err },
		func() error { _, err := permits.Lease(ctx, one.ID()); return err },
		func() error { _, err := permits.Expire(ctx, 0); return err },
		func() error { return one.Release(ctx) },
		func() error { _, err := permits.Delete(ctx); return err },
		func() error { _, err := latch.TrySetCount(ctx, 1); return err },
		func() error { return both(ctx, latch.Await, func() error { return latch.CountDown(ctx) }) },
		func() error { _, err := latch.TrySetCount(ctx, 1); return err },
		func() error { _, err := latch.Delete(ctx); return err },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// both begins the wait, and calls then, which ends it.
func both(ctx context.Context, wait func(ctx context.Context) error, then func() error) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	done := testbed.Start(func() error { return wait(ctx) })
	if err := then(); err != nil { // nothing will come
		end()
		<-done
		return err
	}
	return <-done
}

// A rotation is a user of the server whose password changes, with the password that clients use.
type rotation struct {
	*testbed.Site
	password atomic.Pointer[string]
	asked    atomic.Int64
}

// change replaces the password on the server and in the clients. No connection is closed.
func (r *rotation) change(password string) {
	r.add(password)
	r.drop(password)
}

// add gives the user one more password, which the clients use from now on.
func (r *rotation) add(password string) {
	r.Admin("ACL", "SETUSER", "locks", ">"+password)
	r.password.Store(&password)
}

// drop takes the other passwords from the user.
func (r *rotation) drop(password string) {
	r.Admin("ACL", "SETUSER", "locks", "resetpass", ">"+password)
}

// cut ends all connections of the user.
func (r *rotation) cut() {
	r.T.Helper()
	killed, err := r.Outside.Do(r.Ctx, r.Outside.B().Arbitrary("CLIENT", "KILL", "USER", "locks").Build()).AsInt64()
	require.NoError(r.T, err)
	require.Positive(r.T, killed)
}

func (r *rotation) asks(refresh time.Duration) func(*rlock.Config) {
	return func(c *rlock.Config) {
		c.Lease = 3 * time.Second // Close waits as long for an acquire that was cut off
		c.Redis.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (a rueidis.AuthCredentials, _ error) {
			r.asked.Add(1)
			a.Username, a.Password = "locks", *r.password.Load()
			if refresh > 0 {
				a.RefreshAfter = time.Now().Add(refresh)
			}
			return a, nil
		}
	}
}

func rotates(t *testing.T) *rotation {
	r := &rotation{Site: testbed.At(t, redistest.Standalone(t))}
	r.Admin("ACL", "SETUSER", "locks", "on", "~*", "&*", "+@all")
	r.change("first")
	return r
}

// Connections outlive a change of the password. New ones need the new one, which clients that are
// asked for it give.
func TestLocksAndSubscriptionsOutliveTheirPassword(t *testing.T) {
	t.Parallel()
	r := rotates(t)
	a, b := r.NewClient(r.asks(0)), r.NewClient(r.asks(0))
	old := r.NewClient(func(c *rlock.Config) {
		c.Lease, c.Redis.Username, c.Redis.Password = 3*time.Second, "locks", "first"
	})
	r.HandOver(a, b)
	r.HandOver(a, old)
	before := r.asked.Load()
	hold := testbed.Take(t, r.Ctx, a.NewLock("other"))
	r.change("second")
	r.HandOver(a, b)
	r.HandOver(b, old)
	assert.Equal(t, before, r.asked.Load(), "over the same connections")

	r.cut()
	r.HandOver(a, b)
	r.HandOver(b, a)
	require.NoError(t, context.Cause(hold.Context()))
	require.NoError(t, hold.Release(r.Ctx))
	var err error
	require.Eventually(t, func() bool { // the connection may be found closed
		_, err = old.NewLock(testbed.Key).TryLock(r.Ctx)
		require.Error(t, err)
		return errors.Is(err, rlock.ErrNoPermission)
	}, testbed.Hang, time.Millisecond)
	require.ErrorContains(t, err, "WRONGPASS")
	require.NotContains(t, err.Error(), "first")
	r.change("first")
	r.HandOver(a, old)
}

// A refresh is asked for by each connection of commands. Those of subscriptions are dedicated,
// and rueidis 1.0.79 does not refresh these.
func TestCredentialsThatAreRefreshedDisturbNoLock(t *testing.T) {
	t.Parallel()
	r := rotates(t)
	a, b := r.NewClient(r.asks(100*time.Millisecond)), r.NewClient(r.asks(100*time.Millisecond))
	hold := testbed.Take(t, r.Ctx, a.NewLock("other"))
	for _, password := range []string{"second", "third", "fourth"} {
		r.add(password)
		before := r.asked.Load()
		require.Eventually(t, func() bool { return r.asked.Load() > before+10 }, testbed.Hang, time.Millisecond)
		r.drop(password)
		r.HandOver(a, b)
	}
	require.NoError(t, context.Cause(hold.Context()))
	require.NoError(t, hold.Release(r.Ctx))
}

// Redis names the user since 7.2.
func TestNeitherLogsNorErrorsNameTheUserOrThePassword(t *testing.T) {
	const user, password = "accounting", "hunter2"
	t.Parallel()
	s := testbed.At(t, redistest.Standalone(t))
	log := &testbed.Journal{}
	var errs []error
	permit := func(rules ...string) {
		s.Admin("ACL", append([]string{"SETUSER", user, "reset", "on", ">" + password, "~*", "&*", "+@all"}, rules...)...)
	}
	config := rlock.Config{Redis: s.Options(), Lease: time.Second, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	config.Redis.Username, config.Redis.Password = user, password
	_, err := rlock.New(config)
	require.ErrorIs(t, err, rlock.ErrNoPermission, "the user does not exist")
	errs = append(errs, err)
	for _, rule := range []string{"-evalsha", "-hset", "-publish", "-subscribe", "resetkeys", "resetchannels"} {
		permit(rule)
		errs = slices.AppendSeq(errs, maps.Values(s.Rehearse(testbed.Key, config)))
	}

	permit()
	client, err := rlock.New(config)
	require.NoError(t, err)
	defer client.Close()
	hold := testbed.Take(t, s.Ctx, client.NewLock(testbed.Key))
	s.Admin("ACL", "DELUSER", user) // deletes the user's connections, too
	testbed.RequireLoss(t, s.Ctx, hold)
	errs = append(errs, context.Cause(hold.Context()), hold.Release(s.Ctx))
	attempt := func() {
		_, err := client.NewLock(testbed.Key).TryLock(s.Ctx)
		require.Error(t, err)
		errs = append(errs, err)
	}
	attempt()
	s.Stop()
	attempt()
	s.Start()
	for _, address := range []string{user + ":" + password + "@127.0.0.1:6379", "redis://" + user + ":" + password + "@127.0.0.1:6379"} {
		_, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{address}}})
		require.ErrorIs(t, err, rlock.ErrInvalidConfig)
		errs = append(errs, err)
	}

	assert.Greater(t, len(errs), 18)
	for _, err := range errs {
		text := fmt.Sprintf("%v %+v %#v", err, err, err)
		assert.NotContains(t, text, user)
		assert.NotContains(t, text, password)
	}
	assert.NotZero(t, log.Count(""))
	assert.Zero(t, log.Count(user))
	assert.Zero(t, log.Count(password))
}

// Messages of a forger: a user of the same Redis who may publish on a client's channel of a lock.
// It knows the client's id, the lock's name, and tenures that the client has had.

// A forgery is a lock of one kind, with what a forger needs to know.
type forgery struct {
	lock  func(*rlock.Client) *rlock.Lock
	turns string // the part behind the lock's tag in the names of its channels
}

// grants publishes that the ticket was granted the lock, with a token.
func (f forgery) grants(w *testbed.World, p *testbed.Client, ticket string) {
	for _, tokens := range []string{" ", "9000000000000000000 1"} {
		w.Publish("rlock_grants:{"+testbed.Key+"}"+f.turns+":"+p.ID(), fmt.Sprintf("+%s %s %s", ticket, tokens, testbed.Key))
	}
	synctest.Wait()
}

// ownerOf returns the owner that Redis shows.
func ownerOf(w *testbed.World) string {
	w.T.Helper()
	for _, field := range w.Fields(testbed.Key) {
		if field != "mode" {
			return strings.TrimSuffix(field, ":write")
		}
	}
	require.Fail(w.T, "there is no owner")
	return ""
}

// neighbours returns the tenures that a counter would give before and after this one, in the name
// of the owner.
func neighbours(tenure, owner string, n int) (near []string) {
	prefix, digits := tenure[:19], strings.ReplaceAll(tenure[19:36], "-", "")
	number, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		panic(err)
	}
	for i := -n; i <= n; i++ {
		hex := fmt.Sprintf("%016x", number+uint64(i))
		near = append(near, fmt.Sprintf("%s%s-%s:%s", prefix, hex[:4], hex[4:], owner))
	}
	return near
}

func eachForgery(t *testing.T, run func(t *testing.T, w *testbed.World, f forgery)) {
	forgeries := make(map[string]forgery)
	for kind, lock := range testbed.LocksOf("plain", "fenced", "fair", "write", "semaphore") {
		forgeries[kind] = forgery{lock, testbed.Modes[kind]}
	}
	testbed.EachBubble(t, forgeries, run)
}

func TestAForgedMessageGrantsNoLockAndChoosesNoToken(t *testing.T) {
	eachForgery(t, func(t *testing.T, w *testbed.World, f forgery) {
		p, holder, them := w.NewClient(), w.NewClient(), w.Caller()
		me := rlock.NewOwner()
		mine := rlock.WithOwner(w.Ctx, me)
		require.NoError(t, f.lock(p.Client).Lock(mine))
		seen := ownerOf(w)
		require.NoError(t, f.lock(p.Client).Unlock(mine))
		require.NoError(t, f.lock(holder.Client).Lock(them))
		var hold *rlock.Hold
		got := testbed.Waits(t, func() (err error) { hold, err = f.lock(p.Client).Acquire(mine); return err })
		for _, guess := range neighbours(seen, fmt.Sprint(me), 3) {
			f.grants(w, p, guess)
		}
		time.Sleep(time.Second)
		require.True(t, testbed.Pending(got), "a forged message granted the lock")
		require.NoError(t, f.lock(holder.Client).Unlock(them))
		require.NoError(t, <-got)
		if token, err := hold.Token(); err == nil {
			assert.Less(t, token, uint64(100), "the forger chose the token")
		}
		require.NoError(t, hold.Release(w.Ctx))
	})
}

// The key is there until the lease ends, even if messages are forged: the owner can be read in it.
func TestAForgedMessageReleasesNoLockThatStays(t *testing.T) {
	eachForgery(t, func(t *testing.T, w *testbed.World, f forgery) {
		p := w.NewClient()
		hold := testbed.Take(t, w.Caller(), f.lock(p.Client), rlock.WithMinHold(time.Minute))
		require.NoError(t, hold.Release(w.Ctx))
		owner := ownerOf(w)
		me := w.Caller()
		got := testbed.Start(func() error { return f.lock(p.Client).Lock(me) }) // its client listens
		require.True(t, testbed.Pending(got))
		f.grants(w, p, owner)
		time.Sleep(50 * time.Second)
		require.True(t, testbed.Pending(got), "the lock was released before its time")
		require.Equal(t, owner, ownerOf(w))
		require.NoError(t, <-got)
		require.NoError(t, f.lock(p.Client).Unlock(me))
	})
}
