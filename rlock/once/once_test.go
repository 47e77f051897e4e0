package once_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/go-rlock/rlock/rlock/once"
)

func TestMain(m *testing.M) { redistest.Main(m, testbed.AFailedHandshake) }

const key = "report:42"

// A process is a group with its clients and their networks.
type process struct {
	*once.Group
	client *testbed.Client
}

func start(w *testbed.World, o once.Options, changes ...func(*rlock.Config)) *process {
	p := &process{client: w.NewClient(changes...)}
	p.Group = once.New(p.client.Client, o)
	w.T.Cleanup(p.Group.Close)
	return p
}

// commands returns the commands of the process so far, but for those of a connection.
func (p *process) commands() (names []string) {
	for _, f := range p.client.Net.Sent("") {
		name := strings.ToUpper(f.Args[0])
		if !slices.Contains([]string{"HELLO", "CLIENT", "PING", "INFO", "CLUSTER", "COMMAND", "CONFIG", "ROLE"}, name) {
			names = append(names, name)
		}
	}
	return names
}

// warm runs once for two callers of another key, the first and the second one of another process.
func (p *process) warm(w *testbed.World, other *process) {
	var wg sync.WaitGroup
	for _, q := range []*process{p, other} {
		wg.Go(func() {
			_, _, err := q.Do(w.Ctx, "warm", func(context.Context) ([]byte, error) { time.Sleep(time.Second); return nil, nil })
			assert.NoError(w.T, err)
		})
		synctest.Wait()
	}
	wg.Wait()
}

// An end is what a call of Do has returned.
type end struct {
	value  string
	shared bool
	err    error
	after  time.Duration
}

// asks has so many callers ask at the same time.
func (p *process) asks(ctx context.Context, n int, fn func(context.Context) ([]byte, error)) <-chan end {
	ends, began := make(chan end, n), time.Now()
	for range n {
		go func() {
			value, shared, err := p.Do(ctx, key, fn)
			ends <- end{string(value), shared, err, time.Since(began)}
		}()
	}
	return ends
}

func takes(d time.Duration, value string, runs *atomic.Int32) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		runs.Add(1)
		select {
		case <-time.After(d):
			return []byte(value), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// A call that another process serves, by the message of its release or by a kept value, is
// answered: its client counts no failure, and the Observer is told of none.
func TestACallThatAnotherProcessServesIsNoFailure(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		var runs, gaveUp atomic.Int32
		var contended []bool
		a := start(w, once.Options{Keep: time.Minute})
		b := start(w, once.Options{Keep: time.Minute}, func(c *rlock.Config) {
			c.Observer = &rlock.Observer{
				Answered: func(_ context.Context, i rlock.AnsweredInfo) {
					assert.Equal(t, key, i.Name)
					assert.Equal(t, i.Contended, i.Waited == time.Second, i)
					contended = append(contended, i.Contended)
				},
				GaveUp: func(context.Context, rlock.GaveUpInfo) { gaveUp.Add(1) },
			}
		})
		first := a.asks(w.Ctx, 1, takes(time.Second, "42", &runs))
		synctest.Wait()
		second := b.asks(w.Ctx, 1, takes(time.Second, "not run", &runs))
		assert.Equal(t, end{"42", false, nil, time.Second}, <-first)
		assert.Equal(t, end{"42", true, nil, time.Second}, <-second)
		assert.Equal(t, end{"42", true, nil, 0}, <-b.asks(w.Ctx, 1, takes(time.Second, "not run", &runs)))
		assert.EqualValues(t, 1, runs.Load())
		assert.Equal(t, []bool{true, false}, contended)
		assert.Zero(t, gaveUp.Load())
		stats := b.client.Stats()
		assert.EqualValues(t, 2, stats.Answered)
		assert.Zero(t, stats.Failed+stats.Denied+stats.Canceled)
	})
}

// Of five hundred callers in five processes one runs, and all have its value when it ends. The
// commands are counted: a lone run takes two, and each process that waits three and the one by
// which it subscribes to its own channel.
func TestOfAllCallersOneRuns(t *testing.T) {
	for _, n := range []struct{ processes, callers, most int }{{1, 1, 2}, {5, 100, 25}, {100, 5, 450}} {
		t.Run(fmt.Sprint(n.processes), func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				var runs atomic.Int32
				var all []*process
				for range n.processes {
					p := start(w, once.Options{})
					p.client.Net.SetRoundTrip(time.Millisecond)
					all = append(all, p)
				}
				for i := range all { // the server knows the scripts, and the clients the server, from then on
					all[i].warm(w, all[(i+1)%len(all)])
				}
				time.Sleep(time.Minute)
				before := 0
				for _, p := range all {
					before += len(p.commands())
				}
				var ends []<-chan end
				for _, p := range all {
					ends = append(ends, p.asks(w.Ctx, n.callers, takes(200*time.Millisecond, "it", &runs)))
				}
				own, last := 0, time.Duration(0)
				for _, e := range ends {
					for range n.callers {
						r := <-e
						require.NoError(t, r.err)
						assert.Equal(t, "it", r.value)
						assert.Less(t, r.after, 210*time.Millisecond)
						if last = max(last, r.after); !r.shared {
							own++
						}
					}
				}
				synctest.Wait()
				assert.EqualValues(t, 1, runs.Load())
				assert.Equal(t, 1, own)
				sent := -before
				for _, p := range all {
					sent += len(p.commands())
				}
				t.Logf("%d processes, %d callers each, Redis 1 ms away: %d commands, the last caller after %v", n.processes, n.callers, sent, last)
				assert.LessOrEqual(t, sent, n.most, "%v", all[len(all)-1].commands())
			})
		})
	}
}

// A value that is kept is one command, and no lock; after that time the function runs again.
func TestAValueIsKept(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		var runs atomic.Int32
		o := once.Options{Keep: time.Minute, KeepErrors: time.Second}
		a, b := start(w, o), start(w, o)
		<-a.asks(w.Ctx, 1, takes(0, "it", &runs)) // the server knows the scripts from then on
		time.Sleep(time.Minute)
		runs.Store(0)
		lone := len(a.commands())
		r := <-a.asks(w.Ctx, 1, takes(0, "it", &runs))
		assert.Equal(t, end{"it", false, nil, 0}, r)
		assert.Equal(t, 2, len(a.commands())-lone, "%v", a.commands()[lone:])
		for _, p := range []*process{a, b} {
			synctest.Wait()
			before := len(p.commands())
			assert.Equal(t, end{"it", true, nil, 0}, <-p.asks(w.Ctx, 1, takes(0, "no", &runs)))
			got := p.commands()
			assert.LessOrEqual(t, len(got)-before, 2, "an EVALSHA, the first time an EVAL: %v", got)
		}
		before := len(b.commands())
		assert.Equal(t, end{"it", true, nil, 0}, <-b.asks(w.Ctx, 1, takes(0, "no", &runs)))
		assert.Equal(t, 1, len(b.commands())-before, "%v", b.commands()[before:])
		time.Sleep(time.Minute)
		assert.Equal(t, end{"again", false, nil, 0}, <-b.asks(w.Ctx, 1, takes(0, "again", &runs)))
		assert.EqualValues(t, 2, runs.Load())

		time.Sleep(time.Minute)
		value, _, err := a.Do(w.Ctx, key, func(context.Context) ([]byte, error) { return []byte("a part"), once.ForAll(errors.New("sold out")) })
		require.EqualError(t, err, "sold out")
		assert.Empty(t, value)
		var shared *once.Shared
		_, is, err := b.Do(w.Ctx, key, takes(0, "no", &runs))
		require.ErrorAs(t, err, &shared)
		assert.Equal(t, "sold out", shared.Text)
		assert.True(t, is)
		time.Sleep(2 * time.Second)
		assert.Equal(t, "it", (<-b.asks(w.Ctx, 1, takes(0, "it", &runs))).value)
	})
}

// A caller whose time is up while Redis cannot be reached is told why, as that of a lock is, also
// one of several.
func TestADeadlineNamesTheLastErrorOfRedis(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other := start(w, once.Options{}), start(w, once.Options{})
		var runs atomic.Int32
		p.warm(w, other)
		p.client.Net.Refuse()
		ctx, cancel := context.WithTimeout(w.Ctx, 2*time.Second)
		defer cancel()
		ends := p.asks(ctx, 3, takes(0, "no", &runs))
		for range 3 {
			e := <-ends
			require.ErrorIs(t, e.err, context.DeadlineExceeded)
			require.ErrorContains(t, e.err, "last error")
			assert.Equal(t, 2*time.Second, e.after)
		}
		assert.Zero(t, runs.Load())

		ctx, cancel = context.WithTimeout(w.Ctx, 4*time.Second)
		defer cancel()
		served := p.asks(ctx, 1, takes(time.Minute, "it", &runs))
		time.Sleep(time.Second)
		p.client.Net.Heal()
		assert.Equal(t, context.DeadlineExceeded, (<-served).err, "Redis serves it again")
		assert.EqualValues(t, 1, runs.Load())

		time.Sleep(time.Minute)
		other.asks(w.Ctx, 1, takes(time.Minute, "it", &runs))
		synctest.Wait()
		ctx, cancel = context.WithTimeout(w.Ctx, 10*time.Second)
		defer cancel()
		assert.Equal(t, context.DeadlineExceeded, (<-p.asks(ctx, 1, takes(0, "no", &runs))).err, "Redis serves it, and others hold the key")
	})
}

// Only a Do that would wait for itself is nested: not one of another prefix, nor one with the
// context of a function that has returned. Two groups of one client have one lock.
func TestOnlyACallThatWouldWaitForItselfIsNested(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := start(w, once.Options{})
		elsewhere := start(w, once.Options{}, func(c *rlock.Config) { c.Prefix = "other:" })
		twin := once.New(p.client.Client, once.Options{})
		defer twin.Close()
		fn := func(context.Context) ([]byte, error) { return []byte("it"), nil }
		var kept context.Context
		_, _, err := p.Do(w.Ctx, key, func(ctx context.Context) ([]byte, error) {
			kept = context.WithoutCancel(ctx)
			_, _, err := twin.Do(ctx, key, fn)
			require.ErrorIs(t, err, once.ErrNested)
			v, _, err := elsewhere.Do(ctx, key, fn)
			return v, err
		})
		require.NoError(t, err)
		_, _, err = p.Do(kept, key, fn)
		require.NoError(t, err)
	})
}

// An error that is for all callers of a key is an error like any other in the function of another
// key that asks for it.
func TestAnErrorForAllDoesNotLeakToAnOuterFunction(t *testing.T) {
	require.NoError(t, once.ForAll(nil))
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := start(w, once.Options{})
		missing := errors.New("no such account")
		var runs atomic.Int32
		ends := p.asks(w.Ctx, 3, func(ctx context.Context) ([]byte, error) {
			runs.Add(1)
			time.Sleep(time.Second)
			v, _, err := p.Do(ctx, "inner", func(context.Context) ([]byte, error) { return nil, fmt.Errorf("inner: %w", once.ForAll(missing)) })
			return v, fmt.Errorf("outer: %w", err)
		})
		for range 3 {
			e := <-ends
			require.ErrorIs(t, e.err, missing)
			assert.EqualError(t, e.err, "outer: inner: no such account")
		}
		assert.EqualValues(t, 3, runs.Load(), "each its own")
	})
}

// A panic is told: to its caller, or by the log.
func TestAPanicWithoutItsCallerIsLogged(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := start(w, once.Options{Finish: true})
		ctx, cancel := context.WithTimeout(w.Ctx, time.Second)
		defer cancel()
		ends := p.asks(ctx, 1, func(context.Context) ([]byte, error) {
			time.Sleep(2 * time.Second)
			panic("a late panic")
		})
		require.ErrorIs(t, (<-ends).err, context.DeadlineExceeded)
		time.Sleep(2 * time.Second)
		assert.Equal(t, 1, p.client.Logged("a late panic"))
		assert.EqualValues(t, 1, p.client.Stats().Acquired, "no caller is left, and the lock is not taken again")
	})
}

// Two keys are two values, also if they differ by their braces alone.
func TestKeysThatDifferByTheirBracesAreTwoValues(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other := start(w, once.Options{Keep: time.Minute}), start(w, once.Options{Keep: time.Minute})
		for _, k := range []string{"x", "{x}", "{{x}}", "x}", "{x"} {
			for range 2 {
				v, _, err := p.Do(w.Ctx, k, func(context.Context) ([]byte, error) { return []byte(k), nil })
				require.NoError(t, err)
				assert.Equal(t, k, string(v))
				p, other = other, p
			}
		}
	})
}

// A group works over the connections of its client: those of its own, those of a rueidis client,
// and those that are yet to be opened when Redis is down at the start. A long value is read by a
// look of the group's own.
func TestAGroupUsesTheConnectionsOfItsClient(t *testing.T) {
	for how, change := range map[string]func(w *testbed.World, c *rlock.Config){
		"own": func(*testbed.World, *rlock.Config) {},
		"shared": func(w *testbed.World, c *rlock.Config) {
			option := c.Redis
			option.DisableCache = true
			shared, err := rueidis.NewClient(option)
			require.NoError(w.T, err)
			w.T.Cleanup(shared.Close)
			c.Redis, c.Client = rueidis.ClientOption{}, shared
		},
		"lazy": func(w *testbed.World, c *rlock.Config) {
			gate := network.New(w.Dial)
			gate.Refuse()
			w.T.Cleanup(gate.Close)
			time.AfterFunc(10*time.Second, gate.Heal)
			c.Lazy, c.Redis.DialCtxFn = true, gate.Dial
		},
	} {
		testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
			var runs atomic.Int32
			other := start(w, once.Options{Inline: -1})
			p := start(w, once.Options{Inline: -1}, func(c *rlock.Config) { change(w, c) })
			lead := other.asks(w.Ctx, 1, takes(time.Minute, "it", &runs))
			synctest.Wait()
			for _, e := range []end{<-p.asks(w.Ctx, 1, takes(0, "no", &runs)), <-lead} {
				require.NoError(t, e.err, how)
				assert.Equal(t, "it", e.value, how)
			}
			assert.EqualValues(t, 1, runs.Load(), how)
		})
	}
}

// An error is its caller's, and the next one runs, here or in another process. A panic is one, as
// is Goexit.
func TestAnErrorIsThatOfItsCaller(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		a, b := start(w, once.Options{}), start(w, once.Options{})
		var runs atomic.Int32
		fails := func(context.Context) ([]byte, error) {
			time.Sleep(10 * time.Millisecond)
			switch runs.Add(1) {
			case 1:
				return nil, errors.New("first")
			case 2:
				panic("second")
			case 3:
				runtime.Goexit()
			case 4:
				return nil, once.ForAll(errors.New("for all"))
			}
			return []byte("too many"), nil
		}
		ends := []<-chan end{a.asks(w.Ctx, 3, fails), b.asks(w.Ctx, 3, fails)}
		texts := map[string]int{}
		panics := 0
		for _, e := range ends {
			for range 3 {
				r := <-e
				var panicked *once.PanicError
				if errors.As(r.err, &panicked) {
					panics++
					continue
				}
				require.Error(t, r.err)
				texts[r.err.Error()]++
			}
		}
		assert.Equal(t, 2, panics)
		assert.Equal(t, map[string]int{"first": 1, "for all": 3}, texts)
		assert.EqualValues(t, 4, runs.Load())
	})
}

// A caller that leaves does not end the function for others; the last one does, unless it is to
// finish.
func TestCallersThatLeave(t *testing.T) {
	for _, finish := range []bool{false, true} {
		testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
			p := start(w, once.Options{Finish: finish, Keep: time.Minute})
			var runs atomic.Int32
			ended := make(chan error, 1)
			fn := func(ctx context.Context) ([]byte, error) {
				v, err := takes(time.Minute, "it", &runs)(ctx)
				ended <- err
				return v, err
			}
			first, cancel := context.WithCancel(w.Ctx)
			second, cancel2 := context.WithCancel(w.Ctx)
			a := p.asks(first, 1, fn)
			synctest.Wait()
			b := p.asks(second, 1, fn)
			synctest.Wait()
			cancel()
			require.ErrorIs(t, (<-a).err, context.Canceled)
			synctest.Wait()
			assert.Empty(t, ended)
			cancel2()
			require.ErrorIs(t, (<-b).err, context.Canceled)
			if err := <-ended; finish {
				require.NoError(t, err)
				synctest.Wait()
				assert.Equal(t, "it", (<-p.asks(w.Ctx, 1, fn)).value, "it is stored")
			} else {
				require.ErrorIs(t, err, context.Canceled)
			}
			assert.EqualValues(t, 1, runs.Load())
		})
	}
}

// One that loses the lock stores nothing, and its callers get the value of its successor; without
// one they get ErrVoid.
func TestAValueOfALostLockIsVoid(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		var runs atomic.Int32
		a, b := start(w, once.Options{}), start(w, once.Options{})
		deaf := func(value string, d time.Duration) func(context.Context) ([]byte, error) {
			return func(context.Context) ([]byte, error) {
				runs.Add(1)
				time.Sleep(d)
				return []byte(value), nil
			}
		}
		lost := a.asks(w.Ctx, 1, deaf("void", time.Second))
		synctest.Wait()
		w.Del(key)
		ends := b.asks(w.Ctx, 1, deaf("it", 2*time.Second))
		synctest.Wait()
		assert.Equal(t, "it", (<-lost).value)
		assert.Equal(t, "it", (<-ends).value)
		assert.EqualValues(t, 2, runs.Load())

		lost = a.asks(w.Ctx, 1, deaf("void", time.Second))
		synctest.Wait()
		w.Del(key)
		require.ErrorIs(t, (<-lost).err, once.ErrVoid)
		assert.EqualValues(t, 3, runs.Load(), "nor is it run again")
	})
}

// ErrVoid is for a caller whose function ran. One that comes while the lock of a lost run is given
// back runs its own.
func TestACallerThatComesAfterALostRunRunsItsFunction(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		var runs atomic.Int32
		p := start(w, once.Options{})
		p.client.Net.SetRoundTrip(10 * time.Millisecond)
		for late := range 50 {
			lost := p.asks(w.Ctx, 1, takes(time.Second, "void", &runs))
			time.Sleep(500 * time.Millisecond)
			w.Del(key)
			p.client.Net.Rule(network.Deaf) // it is not told that the key is gone
			time.Sleep(500*time.Millisecond + time.Duration(late)*time.Millisecond)
			next := <-p.asks(w.Ctx, 1, takes(time.Second, "it", &runs))
			assert.NoError(t, next.err, "%d ms after the function", late)
			assert.Equal(t, "it", next.value)
			<-lost
			p.client.Net.Rule(nil)
		}
	})
}

// Messages that are lost cost those that wait a look.
func TestALostMessageCostsALook(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		var runs atomic.Int32
		a, b, c := start(w, once.Options{}), start(w, once.Options{}), start(w, once.Options{})
		lead := a.asks(w.Ctx, 1, takes(time.Second, "it", &runs))
		synctest.Wait()
		ends := []<-chan end{b.asks(w.Ctx, 5, takes(time.Second, "no", &runs)), c.asks(w.Ctx, 5, takes(time.Second, "no", &runs))}
		synctest.Wait()
		b.client.Net.Rule(network.Deaf)
		<-lead
		for _, e := range ends {
			for range 5 {
				r := <-e
				require.NoError(t, r.err)
				assert.Equal(t, "it", r.value)
				assert.LessOrEqual(t, r.after, time.Second+2100*time.Millisecond)
			}
		}
		assert.EqualValues(t, 1, runs.Load())
	})
}

func TestCallsThatAreRefused(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := start(w, once.Options{Tokens: true})
		_, _, err := p.Do(w.Ctx, key, func(ctx context.Context) ([]byte, error) {
			token, err := once.HoldOf(ctx).Token()
			assert.NoError(t, err)
			assert.EqualValues(t, 1, token)
			v, _, err := p.Do(ctx, key, nil)
			return v, err
		})
		require.ErrorIs(t, err, once.ErrNested)
		assert.Nil(t, once.HoldOf(w.Ctx))
		over, cancel := context.WithCancel(w.Ctx)
		cancel()
		_, _, err = p.Do(over, key, nil)
		require.ErrorIs(t, err, context.Canceled)
		returned := false
		running := p.asks(w.Ctx, 2, func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			returned = true
			return nil, ctx.Err()
		})
		synctest.Wait()
		p.Group.Close()
		assert.True(t, returned)
		for range 2 {
			require.ErrorIs(t, (<-running).err, once.ErrClosed)
		}
		_, _, err = p.Do(w.Ctx, key, nil)
		require.ErrorIs(t, err, once.ErrClosed)
		assert.Empty(t, w.Fields(key))
	})
}

// A long value is read by each process, without the lock, and one that is too long is for the
// callers of its process alone.
func TestLongValues(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		var runs atomic.Int32
		o := once.Options{Inline: 10, Most: 100}
		a, b := start(w, o), start(w, o)
		for _, size := range []int{10, 11, 100, 101} {
			runs.Store(0)
			long, held := strings.Repeat("x", size), b.client.Stats().Acquired
			ends := []<-chan end{a.asks(w.Ctx, 2, takes(time.Second, long, &runs))}
			synctest.Wait()
			ends = append(ends, b.asks(w.Ctx, 2, takes(time.Second, long, &runs)))
			for _, e := range ends {
				for range 2 {
					assert.Equal(t, long, (<-e).value)
				}
			}
			assert.EqualValues(t, 1+size/101, runs.Load(), "%d", size)
			assert.EqualValues(t, size/101, b.client.Stats().Acquired-held, "%d", size)
		}
	})
}

// A process looks again for a long value if its look has no answer, also if it has to take the lock
// before.
func TestALookWithoutAnAnswerIsRepeated(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		var runs atomic.Int32
		a, b := start(w, once.Options{Inline: -1}), start(w, once.Options{Inline: -1})
		a.warm(w, b)
		lead := a.asks(w.Ctx, 1, takes(time.Second, "it", &runs))
		synctest.Wait()
		waits := b.asks(w.Ctx, 3, takes(time.Second, "no", &runs))
		synctest.Wait()
		looks := 0
		b.client.Net.Rule(func(f network.Frame) network.Fate {
			if f.Stage == network.Request && f.Is("EVALSHA") && strings.HasSuffix(f.Args[3], ":once") {
				looks++
			}
			switch {
			case looks == 0:
			case f.Stage == network.Push || f.Is("SUBSCRIBE") || f.Is("SSUBSCRIBE"):
				return network.Cut // b hears no message
			case f.Stage == network.Reply && looks == 1:
				return network.Hold
			}
			return network.Pass
		})
		w.Answer(func(_ string, args ...string) string {
			if len(args) > 2 && args[1] == "1" && strings.HasSuffix(args[2], ":once") {
				return "LOADING Redis is loading the dataset in memory"
			}
			return ""
		})
		<-lead
		synctest.Wait()
		require.Equal(t, 1, looks)
		w.Answer(nil)
		w.Publish("rlock_grants:{"+key+"}:"+b.client.ID(), "")
		time.Sleep(time.Second)
		b.client.Net.Rule(nil)
		b.client.Net.Deliver()
		for range 3 {
			e := <-waits
			require.NoError(t, e.err)
			assert.Equal(t, "it", e.value)
		}
		assert.EqualValues(t, 1, runs.Load())
	})
}

// Typed values, and the events for metrics.
func TestTypedValuesAndEvents(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		var mu sync.Mutex
		sources := map[once.Source]int{}
		o := once.Options{Done: func(_ context.Context, e once.Event) {
			mu.Lock()
			defer mu.Unlock()
			sources[e.Source]++
		}}
		type token struct{ Text string }
		a, b := start(w, o), start(w, o)
		refresh := func(context.Context) (token, error) { time.Sleep(time.Second); return token{"t"}, nil }
		var wg sync.WaitGroup
		for _, p := range []*process{a, a, b} {
			wg.Go(func() {
				v, _, err := once.As(w.Ctx, p.Group, once.JSON[token](), key, refresh)
				assert.NoError(t, err)
				assert.Equal(t, token{"t"}, v)
			})
			synctest.Wait()
		}
		wg.Wait()
		_, _, err := once.As(w.Ctx, a.Group, once.JSON[chan int](), key, func(context.Context) (chan int, error) { return make(chan int), nil })
		require.Error(t, err)
		assert.Equal(t, map[once.Source]int{once.Ran: 2, once.Process: 1, once.Message: 1}, sources)
	})
}

// A server that refuses the look under the lock is no reason to ask it again and again.
func TestAKeyWithOtherDataIsAnError(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := start(w, once.Options{Keep: time.Minute})
		_, err := w.Push(p.client.NewLock(key).Key("once"), "another program's")
		require.NoError(t, err)
		var runs atomic.Int32
		e := <-p.asks(w.Ctx, 1, takes(time.Second, "value", &runs))
		require.ErrorIs(t, e.err, rlock.ErrWrongType)
		assert.Zero(t, e.after)
		assert.Zero(t, runs.Load())
		assert.False(t, w.Exists(key), "the lock is free")
	})
}

// Nor is one that refuses it after a wait for the lock: the callers have the error, and none runs,
// though the server refuses nothing more.
func TestALookUnderTheLockThatRedisRefusesIsAnError(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other := start(w, once.Options{}), w.NewClient()
		hold, err := other.NewLock(key).Acquire(w.Ctx)
		require.NoError(t, err)
		var runs atomic.Int32
		ends := p.asks(w.Ctx, 2, takes(time.Second, "value", &runs))
		synctest.Wait()
		looks := 0
		w.Answer(func(_ string, args ...string) string {
			if slices.ContainsFunc(args, func(a string) bool { return strings.HasSuffix(a, ":once") }) {
				if looks++; looks == 1 {
					return "NOPERM No permissions to access a key"
				}
			}
			return ""
		})
		require.NoError(t, hold.Release(w.Ctx))
		for range 2 {
			e := <-ends
			require.ErrorIs(t, e.err, rlock.ErrNoPermission)
			require.ErrorContains(t, e.err, "with its values in")
		}
		assert.Zero(t, runs.Load())
		w.Eventually(func() bool { return !w.Exists(key) }, "the lock is free")
		assert.Equal(t, 1, looks)
	})
}

// While Redis cannot be reached the look under the lock is repeated, with pauses.
func TestALookUnderTheLockWaitsForRedis(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other := start(w, once.Options{}), start(w, once.Options{})
		p.warm(w, other)
		var runs atomic.Int32
		failed := errors.New("it fails")
		first := other.asks(w.Ctx, 1, func(context.Context) ([]byte, error) { time.Sleep(time.Second); return nil, failed })
		synctest.Wait()
		looks := 0
		p.client.Net.Rule(func(f network.Frame) network.Fate {
			if f.Stage == network.Request && (f.Is("EVALSHA") || f.Is("EVAL")) && slices.ContainsFunc(f.Args, func(a string) bool { return strings.HasSuffix(a, ":once") }) {
				if looks++; looks < 8 {
					return network.Cut
				}
			}
			return network.Pass
		})
		ends := p.asks(w.Ctx, 1, takes(time.Second, "value", &runs))
		ctx, cancel := context.WithTimeout(w.Ctx, 3*time.Second)
		defer cancel()
		leaves := p.asks(ctx, 1, takes(0, "no", &runs))
		require.ErrorIs(t, (<-first).err, failed)
		require.ErrorContains(t, (<-leaves).err, "last error")
		e := <-ends
		require.NoError(t, e.err)
		assert.Equal(t, "value", e.value)
		assert.Equal(t, 2*time.Second+(1<<7-1)*20*time.Millisecond, e.after, "each pause is twice as long as the one before")
	})
}
