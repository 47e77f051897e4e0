package testbed

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ClientNames returns the names of the connections, without those that have none.
func (s *Site) ClientNames() (names []string) {
	s.T.Helper()
	list, err := s.Outside.Do(s.Ctx, s.Outside.B().Arbitrary("CLIENT", "LIST").Build()).ToString()
	require.NoError(s.T, err)
	for _, word := range strings.Fields(list) {
		if name, ok := strings.CutPrefix(word, "name="); ok && name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ThisProcess returns what Inspect reports of the test's own process, but for the address.
func ThisProcess(t *testing.T) inspect.Process {
	host, err := os.Hostname()
	require.NoError(t, err)
	return inspect.Process{Program: filepath.Base(os.Args[0]), Host: host, PID: os.Getpid()}
}

// fieldForm is Redisson's "<uuid>:<thread id>".
var fieldForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+$`)

// AwaitHash returns the only field of the lock's hash once it belongs to the owner and shows
// the count: nesting and hand-offs are mirrored at once, but not waited for. A renewal
// mirrors them too, so the client's lease should be long.
func (s *Site) AwaitHash(client *rlock.Client, owner string, count string) (field string) {
	s.T.Helper()
	var hash map[string]string
	s.await(func() bool {
		var err error
		hash, err = s.Do("HGETALL", Key).AsStrMap()
		if err != nil || len(hash) != 1 {
			return false
		}
		var shown string
		for field, shown = range hash {
		}
		return shown == count && strings.HasPrefix(field, inspect.Of(client).ID()) && strings.HasSuffix(field, ":"+owner)
	}, func() string {
		return fmt.Sprintf("the hash is %v, and does not show owner %s of client %s with count %s", hash, owner, inspect.Of(client).ID(), count)
	})
	require.Regexp(s.T, fieldForm, field)
	return field
}

func GoroutineID() string {
	var stack [64]byte
	return strings.Fields(string(stack[:runtime.Stack(stack[:], false)]))[1]
}

// A Site is a server and the test that uses it.
type Site struct {
	*redistest.Server
	T       *testing.T
	Ctx     context.Context  // of a wait that should end by itself
	Outside rueidis.Client   // a client that sends other commands than locks
	each    []rueidis.Client // the same for each data node, see nodes
}

func Everywhere(t *testing.T, run func(t *testing.T, s *Site)) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) { run(t, At(t, server)) })
}

// NeedsWideNumbers skips the test on the embedded server where an int has 32 bits. The
// embedded server keeps expiry times and counters in an int; a real server, and this
// library, use 64 bits on every machine.
func NeedsWideNumbers(t *testing.T, kind redistest.Kind) {
	t.Helper()
	if kind == redistest.KindEmbedded && strconv.IntSize == 32 {
		t.Skip("the embedded server counts with 32 bits here")
	}
}

// At makes a site of the server. The test must leave no key behind once its clients are
// closed.
func At(t *testing.T, server *redistest.Server) *Site {
	redistest.Guard(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*Hang)
	t.Cleanup(cancel)
	s := &Site{Server: server, T: t, Ctx: ctx, Outside: server.Client(t)}
	t.Cleanup(func() {
		var left int64
		assert.Eventually(t, func() bool { // the primary may have changed
			var err error
			left, err = s.Do("EXISTS", Key).AsInt64()
			return err == nil
		}, Hang, 10*time.Millisecond)
		assert.Zero(t, left, "a key is left behind")
	})
	return s
}

// Patient gives a running server all the time that it may need on a busy machine. Clients
// that have to notice a silent server keep the usual time.
func Patient(o rueidis.ClientOption) rueidis.ClientOption {
	o.ConnWriteTimeout, o.Dialer.Timeout = Hang, Hang
	return o
}

// In returns the site for a sub-test.
func (s *Site) In(t *testing.T) *Site {
	part := *s
	part.T = t
	return &part
}

// NewClient returns a new client of the server, closed when the test ends.
func (s *Site) NewClient(changes ...func(*rlock.Config)) *rlock.Client {
	s.T.Helper()
	config := rlock.Config{Redis: Patient(s.Options()), Logger: slog.New(slog.DiscardHandler)}
	for _, change := range changes {
		change(&config)
	}
	client, err := rlock.New(config)
	require.NoError(s.T, err)
	s.T.Cleanup(func() { assert.NoError(s.T, client.Close()) })
	return client
}

// NewLock returns the lock of that name, of a client of its own.
func (s *Site) NewLock(changes ...func(*rlock.Config)) *rlock.Lock {
	s.T.Helper()
	return s.NewClient(changes...).NewLock(Key)
}

func WithLease(lease time.Duration) func(*rlock.Config) {
	return func(c *rlock.Config) { c.Lease = lease }
}

// Do sends a command from outside. The first argument after the command's name
// must be a key.
func (s *Site) Do(command, name string, args ...string) rueidis.RedisResult {
	return s.Outside.Do(s.Ctx, s.Outside.B().Arbitrary(command).Keys(name).Args(args...).Build())
}

// Number is do for a command that answers with a number.
func (s *Site) Number(command, name string, args ...string) int64 {
	s.T.Helper()
	n, err := s.Do(command, name, args...).AsInt64()
	require.NoError(s.T, err, command)
	return n
}

// Admin sends a command that has no key.
func (s *Site) Admin(command string, args ...string) {
	s.T.Helper()
	require.NoError(s.T, s.Outside.Do(s.Ctx, s.Outside.B().Arbitrary(command).Args(args...).Build()).Error(), command)
}

// Set makes another owner the holder of the lock: a dead client, or a Java service.
func (s *Site) Set(name, owner string, lease time.Duration) {
	s.T.Helper()
	s.Number("HSET", name, owner, "1")
	s.Number("PEXPIRE", name, fmt.Sprint(lease.Milliseconds()))
}

// A Family is a family of pub/sub commands.
type Family struct{ Subscribe, Publish, count string }

var (
	Plain   = Family{"SUBSCRIBE", "PUBLISH", "NUMSUB"}
	Sharded = Family{"SSUBSCRIBE", "SPUBLISH", "SHARDNUMSUB"}
)

// Family returns Redisson's default for such a server.
func (s *Site) Family() Family {
	if s.Kind == redistest.KindCluster && s.HasShardedPubSub() {
		return Sharded
	}
	return Plain
}

// EachNode returns a client for each data node, replicas as well: rueidis has plain
// subscriptions anywhere.
func (s *Site) EachNode() []rueidis.Client {
	if s.each == nil {
		for _, node := range s.Nodes() {
			s.each = append(s.each, node.Client(s.T))
		}
	}
	return s.each
}

// await returns when the condition is met. If it is not, the test fails, and says what there is in place of it.
func (s *Site) await(met func() bool, otherwise func() string) {
	s.T.Helper()
	for end := time.Now().Add(Hang); !met(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			require.FailNow(s.T, otherwise(), "after %v", Hang)
		}
	}
}

// AwaitWaiters returns when n clients wait for the lock of that name.
func (s *Site) AwaitWaiters(n int64, name string) {
	s.T.Helper()
	queue := "rlock_queue:{" + name + "}"
	waiting := int64(0)
	s.await(func() bool {
		waiting = 0
		for _, layout := range []string{"", "rw", "sem"} {
			members, err := s.Do("ZRANGE", queue+layout, "0", "-1").AsStrSlice()
			if err != nil {
				return false
			}
			for _, member := range members { // without marks, and turns of foreign clients
				if member[0] != '!' && member != "?" {
					waiting++
				}
			}
		}
		return waiting == n
	}, func() string { return fmt.Sprintf("%d clients wait for %q, and not %d", waiting, name, n) })
}

// HandOver has one client wait for a lock that the other holds, and releases it.
func (s *Site) HandOver(here, there *rlock.Client) {
	s.T.Helper()
	hold, err := here.NewLock(Key).Acquire(s.Ctx)
	require.NoError(s.T, err)
	waiter := Start(func() error { return there.NewLock(Key).Do(s.Ctx, Nothing) })
	s.AwaitWaiters(1, Key)
	s.AwaitListeners(1, s.Family(), "rlock_grants:{"+Key+"}:"+inspect.Of(there).ID())
	require.NoError(s.T, hold.Release(s.Ctx))
	require.NoError(s.T, s.Await(waiter))
}

// AwaitListeners returns when n connections are subscribed to the channel.
func (s *Site) AwaitListeners(n int64, f Family, channel string) {
	s.T.Helper()
	var sum int64
	s.await(func() bool {
		sum = 0
		for _, node := range s.EachNode() {
			reply, err := node.Do(s.Ctx, node.B().Arbitrary("PUBSUB", f.count, channel).Build()).AsIntMap()
			if err != nil {
				return false
			}
			sum += reply[channel]
		}
		return sum == n
	}, func() string { return fmt.Sprintf("%d connections are subscribed to %q, and not %d", sum, channel, n) })
}

// IsFree reports whether another owner, in the lock's own client, gets it now; it releases the lock.
func (s *Site) IsFree(lock Locker) bool {
	s.T.Helper()
	me := rlock.WithOwner(s.Ctx, rlock.NewOwner())
	free, err := lock.TryLock(me)
	require.NoError(s.T, err)
	if free {
		require.NoError(s.T, lock.Unlock(me))
	}
	return free
}

// Await returns the result of background.
func (s *Site) Await(result <-chan error) error {
	s.T.Helper()
	select {
	case err := <-result:
		return err
	case <-time.After(Hang):
		require.FailNow(s.T, "a call in the background has not returned", "after %v", Hang)
		return nil
	}
}

func Dial(t *testing.T, option rueidis.ClientOption) *rlock.Client {
	t.Helper()
	option.Dialer.Timeout = Hang // but Close does not wait for a refused release until its lease ends
	client, err := rlock.New(rlock.Config{Redis: option, Logger: Quiet})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}
