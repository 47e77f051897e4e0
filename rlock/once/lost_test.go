package once_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/go-rlock/rlock/rlock/once"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// away makes the process lose its connection as it stores a value that has the text, before the
// server has the command or after, and have no other one until it is healed.
func (p *process) away(text string, stage network.Stage) {
	storing := false
	p.client.Net.Rule(func(f network.Frame) network.Fate {
		stores := f.Stage == network.Request && len(f.Args) > 0 && f.Is("EVALSHA") && strings.Contains(strings.Join(f.Args, " "), text)
		if storing = storing || stores; storing && (f.Stage == stage || f.Stage == network.Request && !stores) {
			return network.Cut
		}
		return network.Pass
	})
}

// Nothing of a value is lost with a connection: a lone caller has that of its function, whether
// Redis has had it or not.
func TestALoneCallerHasItsValueAlthoughTheStoreIsLost(t *testing.T) {
	for _, keep := range []time.Duration{0, time.Minute} {
		for _, stage := range []network.Stage{network.Request, network.Reply} {
			testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
				p, other := start(w, once.Options{Keep: keep}), start(w, once.Options{Keep: keep})
				p.warm(w, other)
				var runs atomic.Int32
				p.away("the value", stage)
				ends := p.asks(w.Ctx, 1, takes(time.Second, "the value", &runs))
				time.Sleep(2 * time.Second)
				p.client.Net.Rule(nil)
				e := <-ends
				require.NoError(t, e.err, "keep %v, %v", keep, stage)
				assert.Equal(t, "the value", e.value)
				assert.False(t, e.shared)
				got := <-other.asks(w.Ctx, 1, takes(0, "another", &runs))
				require.NoError(t, got.err)
				assert.Equal(t, map[bool]string{true: "the value", false: "another"}[keep > 0], got.value, "keep %v, %v", keep, stage)
				time.Sleep(time.Minute)
				assert.Empty(t, w.Fields(key))
			})
		}
	}
}

// A value that is stored late does not become younger: it counts as stored when its function had
// ended, and is not for a caller that asked after that.
func TestAValueThatIsStoredLateIsNoYounger(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := start(w, once.Options{})
		p.warm(w, start(w, once.Options{}))
		var runs atomic.Int32
		p.away("the value", network.Request)
		first := p.asks(w.Ctx, 3, takes(time.Second, "the value", &runs))
		began := time.Now()
		time.Sleep(3 * time.Second)
		here := p.asks(w.Ctx, 1, takes(time.Hour, "another", &runs))
		synctest.Wait()
		p.client.Net.Rule(nil)
		for range 3 {
			e := <-first
			require.NoError(t, e.err)
			assert.Equal(t, "the value", e.value)
		}
		at, err := strconv.ParseInt(w.HGet(p.client.NewLock(key).Key("once"), "s"), 10, 64)
		require.NoError(t, err)
		assert.WithinDuration(t, began.Add(time.Second), time.UnixMicro(at), 20*time.Millisecond)
		assert.LessOrEqual(t, at, began.Add(time.Second).UnixMicro())
		assert.Empty(t, here)
	})
}

// A value that is not stored gives way to one of another process, which was stored since its
// function began.
func TestALostStoreGivesWayToANewerValue(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		o := once.Options{Keep: time.Hour}
		p, other := start(w, o), start(w, o)
		p.warm(w, other)
		var runs atomic.Int32
		p.away("the value", network.Request)
		first := p.asks(w.Ctx, 2, takes(time.Second, "the value", &runs))
		time.Sleep(time.Minute) // its lease has ended
		assert.Equal(t, "another", (<-other.asks(w.Ctx, 1, takes(time.Second, "another", &runs))).value)
		p.client.Net.Rule(nil)
		for range 2 {
			e := <-first
			require.NoError(t, e.err)
			assert.Equal(t, "another", e.value)
		}
		assert.Equal(t, "another", (<-other.asks(w.Ctx, 1, takes(0, "no", &runs))).value, "it is kept")
		assert.EqualValues(t, 2, runs.Load())
	})
}

// The same without callers, and without Keep: the newer value stays for those that lost its
// message.
func TestALostStoreOverwritesNoNewerValue(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other := start(w, once.Options{Finish: true}), start(w, once.Options{})
		p.warm(w, other)
		var runs atomic.Int32
		p.away("the value", network.Request)
		ctx, cancel := context.WithTimeout(w.Ctx, time.Second/2)
		defer cancel()
		first := p.asks(ctx, 1, takes(time.Second, "the value", &runs))
		require.Error(t, (<-first).err)
		time.Sleep(time.Second)
		assert.Equal(t, "another", (<-other.asks(w.Ctx, 1, takes(time.Second, "another", &runs))).value)
		p.client.Net.Rule(nil)
		time.Sleep(5 * time.Second) // the hash expires after ten
		assert.Equal(t, "another", w.HGet(p.client.NewLock(key).Key("once"), "v"))
	})
}

// With Finish a value is stored although no caller waits for it: when its connection is lost, when
// Redis has no memory for it, and when the group is closed.
func TestAValueWithoutCallersIsStored(t *testing.T) {
	for what, c := range map[string]struct {
		breaks, heals func(w *testbed.World, p *process)
	}{
		"nothing":    {func(*testbed.World, *process) {}, func(*testbed.World, *process) {}},
		"connection": {func(_ *testbed.World, p *process) { p.away("the value", network.Request) }, func(_ *testbed.World, p *process) { p.client.Net.Rule(nil) }},
		"memory": {func(w *testbed.World, _ *process) {
			refused := 0
			w.Answer(func(command string, args ...string) string {
				if strings.HasPrefix(command, "eval") && strings.Contains(strings.Join(args, " "), "the value") {
					if refused++; refused > 8 {
						assert.Fail(w.T, "the pauses do not grow")
					}
					return "OOM command not allowed when used memory > 'maxmemory'."
				}
				return ""
			})
		}, func(w *testbed.World, _ *process) { w.AnswerScripts("") }},
		"closed": {func(_ *testbed.World, p *process) { time.AfterFunc(500*time.Millisecond, p.Group.Close) }, func(*testbed.World, *process) {}},
		"closed without a connection": {func(_ *testbed.World, p *process) {
			p.away("the value", network.Request)
			time.AfterFunc(500*time.Millisecond, p.Group.Close)
			time.AfterFunc(1500*time.Millisecond, func() { p.client.Net.Rule(nil) })
		}, func(*testbed.World, *process) {}},
	} {
		testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
			o := once.Options{Keep: time.Hour, Finish: true}
			p, other := start(w, o), start(w, o)
			p.warm(w, other)
			var runs atomic.Int32
			ctx, cancel := context.WithCancel(w.Ctx)
			ends := p.asks(ctx, 1, func(context.Context) ([]byte, error) {
				runs.Add(1)
				time.Sleep(time.Second)
				return []byte("the value"), nil
			})
			synctest.Wait()
			c.breaks(w, p)
			cancel()
			require.ErrorIs(t, (<-ends).err, context.Canceled)
			time.Sleep(3 * time.Second)
			c.heals(w, p)
			time.Sleep(time.Minute)
			assert.Equal(t, "the value", (<-other.asks(w.Ctx, 1, takes(0, "no", &runs))).value, what)
			assert.EqualValues(t, 1, runs.Load(), what)
		})
	}
}

// A group whose Redis is away ends all the same.
func TestCloseDoesNotWaitForEverToStore(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := start(w, once.Options{Finish: true})
		p.warm(w, start(w, once.Options{}))
		var runs atomic.Int32
		p.away("the value", network.Request)
		p.asks(w.Ctx, 1, takes(time.Second, "the value", &runs))
		time.Sleep(2 * time.Second)
		testbed.Within(t, 0, 4*time.Second, p.Group.Close)
	})
}

// A user without the right to the key of the values is told so, with its name.
func TestARefusedStoreIsAnErrorThatNamesTheKey(t *testing.T) {
	testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) { // with Keep it is looked for before the function runs
		p := start(w, once.Options{Keep: time.Minute})
		w.AnswerScripts("NOPERM No permissions to access a key")
		var runs atomic.Int32
		e := <-p.asks(w.Ctx, 1, takes(time.Second, "the value", &runs))
		require.ErrorIs(t, e.err, rlock.ErrNoPermission)
		require.ErrorContains(t, e.err, "{"+key+"}:once")
		assert.Zero(t, runs.Load())
	})
	testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
		p := start(w, once.Options{})
		w.Answer(func(command string, args ...string) string {
			if strings.HasPrefix(command, "eval") && strings.Contains(strings.Join(args, " "), "the value") {
				return "NOPERM ACL failure in script: No permissions to access a key"
			}
			return ""
		})
		var runs atomic.Int32
		ends := p.asks(w.Ctx, 2, takes(time.Second, "the value", &runs))
		for range 2 {
			e := <-ends
			require.ErrorIs(t, e.err, rlock.ErrNoPermission)
			assert.ErrorContains(t, e.err, "{"+key+"}:once")
		}
		assert.EqualValues(t, 1, runs.Load())
	})
}

// A lone caller has its value although no attempt to store it again is allowed, and none is made
// once it has left.
func TestALoneCallerHasAValueThatMayNotBeStoredAgain(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := start(w, once.Options{Finish: true})
		p.warm(w, start(w, once.Options{}))
		p.client.Net.SetRoundTrip(time.Millisecond)
		var runs atomic.Int32
		p.away("the value", network.Request)
		ends := p.asks(w.Ctx, 1, takes(time.Second, "the value", &runs))
		time.Sleep(2 * time.Second)
		w.AnswerScripts("NOPERM No permissions to access a key")
		p.client.Net.Rule(nil)
		e := <-ends
		require.NoError(t, e.err)
		assert.Equal(t, "the value", e.value)
		sent := len(p.commands())
		time.Sleep(time.Second)
		assert.Less(t, len(p.commands())-sent, 100, "only what a lost command may have taken is given back")
	})
}

// A user may lose any right while a function runs. Whatever the scripts are refused, no hash of a
// value stays without an expiry.
func TestARightThatIsLostLeavesNothingForEver(t *testing.T) {
	for _, right := range []string{"hmget", "hkeys", "hset", "hdel", "pttl", "pexpire", "time"} {
		t.Run(right, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p := start(w, once.Options{Keep: time.Minute})
				refused, all := 0, 0
				without := func(do func()) {
					w.Answer(func(command string, args ...string) string {
						if command == right && (right == "time" || args[0] == "{"+key+"}:once") {
							refused++
							return "NOPERM this user has no permissions to run the '" + right + "' command"
						}
						return ""
					})
					do()
					w.Answer(nil)
					if name := "{" + key + "}:once"; w.Exists(name) {
						assert.Positive(t, w.TTL(name))
					}
				}
				for range 2 { // without a value, and with one that was forgotten
					var err error
					without(func() { err = p.Forget(w.Ctx, key) })
					without(func() {
						_, _, failed := p.Do(w.Ctx, key, func(context.Context) ([]byte, error) { return []byte("value"), nil })
						err = errors.Join(err, failed)
					})
					without(func() { err = errors.Join(err, p.Forget(w.Ctx, key)) })
					if refused > 0 {
						require.ErrorIs(t, err, rlock.ErrNoPermission)
					}
					all, refused = all+refused, 0
					_, _, err = p.Do(w.Ctx, key, func(context.Context) ([]byte, error) { return []byte("value"), nil })
					require.NoError(t, err)
					require.NoError(t, p.Forget(w.Ctx, key))
				}
				assert.Equal(t, right != "hdel", all > 0)
				w.FlushAll()
				require.NoError(t, p.Forget(w.Ctx, key))
				time.Sleep(time.Second)
				without(func() { _ = p.Forget(w.Ctx, key) })
				assert.NotEmpty(t, w.HGet("{"+key+"}:once", "f"), "the time of the earlier Forget stays")
				without(func() {
					_, _, _ = p.Do(w.Ctx, key, func(context.Context) ([]byte, error) { return []byte("value"), nil })
				})
				assert.True(t, w.Exists("{"+key+"}:once"), "and a store that is refused takes nothing back that was there")
			})
		})
	}
}

// A caller with a fresh context gets no value whose function had begun before it asked: in this
// process or another, while that runs or when its value is kept. All that ask then share the next
// one, and others get the first.
func TestAFreshCallerGetsTheValueOfAFunctionThatBeganAfterIt(t *testing.T) {
	for _, keep := range []time.Duration{0, time.Hour} {
		testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
			o := once.Options{Keep: keep}
			a, b := start(w, o), start(w, o)
			a.warm(w, b)
			time.Sleep(time.Minute)
			var runs atomic.Int32
			first := []<-chan end{a.asks(w.Ctx, 1, takes(time.Second, "old", &runs))}
			synctest.Wait()
			first = append(first, a.asks(w.Ctx, 1, takes(time.Second, "no", &runs)), b.asks(w.Ctx, 1, takes(time.Second, "no", &runs)))
			time.Sleep(500 * time.Millisecond)
			fresh := once.Fresh(w.Ctx)
			next := []<-chan end{a.asks(fresh, 2, takes(time.Second, "new", &runs)), b.asks(fresh, 2, takes(time.Second, "new", &runs))}
			for _, ends := range first {
				e := <-ends
				require.NoError(t, e.err)
				assert.Equal(t, "old", e.value, "keep %v", keep)
			}
			for _, ends := range next {
				for range 2 {
					e := <-ends
					require.NoError(t, e.err)
					assert.Equal(t, "new", e.value, "keep %v", keep)
				}
			}
			assert.EqualValues(t, 2, runs.Load(), "keep %v", keep)
			time.Sleep(5 * time.Second)
			assert.Equal(t, end{"newer", false, nil, 0}, <-b.asks(fresh, 1, takes(0, "newer", &runs)), "keep %v", keep)
			if keep > 0 {
				assert.Equal(t, end{"newer", true, nil, 0}, <-a.asks(w.Ctx, 1, takes(0, "no", &runs)))
			}
		})
	}
}

// A fresh caller costs no command more.
func TestAFreshCallTakesTwoCommands(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := start(w, once.Options{Keep: time.Hour})
		var runs atomic.Int32
		<-p.asks(w.Ctx, 1, takes(0, "it", &runs))
		time.Sleep(time.Minute) // it has subscribed
		before := len(p.commands())
		assert.Equal(t, "new", (<-p.asks(once.Fresh(w.Ctx), 1, takes(0, "new", &runs))).value)
		assert.Equal(t, 2, len(p.commands())-before, "%v", p.commands()[before:])
	})
}

// What a function asks of another key is as fresh as its caller wants it.
func TestAFunctionOfAFreshCallerAsksForFreshValues(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := start(w, once.Options{Keep: time.Hour})
		inner := func(ctx context.Context, value string) string {
			v, _, err := p.Do(ctx, "inner", func(context.Context) ([]byte, error) { return []byte(value), nil })
			assert.NoError(t, err)
			return string(v)
		}
		assert.Equal(t, "old", inner(w.Ctx, "old"))
		v, _, err := p.Do(once.Fresh(w.Ctx), key, func(ctx context.Context) ([]byte, error) { return []byte(inner(ctx, "new")), nil })
		require.NoError(t, err)
		assert.Equal(t, "new", string(v))
	})
}

// Callers that asked before a Forget share the function that runs, as with singleflight; those that
// ask after it has returned get the value of a function that begins then: in this process and in
// others, whatever becomes of the value. Before that there may have been other Forgets.
func TestACallAfterAForgetGetsNothingFromBefore(t *testing.T) {
	const before, during = "before", "during"
	const oom = "OOM command not allowed when used memory > 'maxmemory'."
	for name, x := range map[string]struct {
		o       once.Options
		forgets []string // when there are others
		sharing bool     // callers that asked while the function ran, before the Forget, share it
		refuses string   // the reply of Redis to the store
	}{
		"a value":                    {once.Options{Keep: time.Hour}, nil, true, ""},
		"that is not kept":           {once.Options{}, nil, true, ""},
		"that is read":               {once.Options{Keep: time.Hour, Inline: -1}, nil, true, ""},
		"that is not stored":         {once.Options{Most: 1}, nil, true, ""},
		"that Redis refuses":         {once.Options{}, nil, true, oom},
		"that Redis refuses at all":  {once.Options{Finish: true}, nil, true, oom},
		"that Redis says nothing of": {once.Options{}, nil, false, oom},
		"another Forget before":      {once.Options{Keep: time.Hour}, []string{before}, false, ""},
		"another Forget during":      {once.Options{Keep: time.Hour}, []string{during}, true, ""},
		"many Forgets":               {once.Options{Keep: time.Hour}, []string{before, during, before}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				var runs atomic.Int32
				a, b := start(w, x.o), start(w, x.o)
				a.warm(w, b)
				forget := func(when string) {
					for _, f := range x.forgets {
						if f == when {
							require.NoError(t, b.Forget(w.Ctx, key))
							time.Sleep(time.Millisecond)
						}
					}
				}
				forget(before)
				first := a.asks(w.Ctx, 1, takes(3*time.Second, "old", &runs))
				time.Sleep(time.Second)
				joins := a.asks(w.Ctx, 2, takes(time.Second, "new", &runs)) // before the Forget, in the process of the function
				time.Sleep(time.Second)
				require.NoError(t, b.Forget(w.Ctx, key))
				time.Sleep(time.Millisecond)
				w.Answer(func(command string, args ...string) string {
					if strings.HasPrefix(command, "eval") && (slices.Contains(args, "old") || !x.sharing && slices.Contains(args, "-")) {
						return x.refuses
					}
					return ""
				})
				after := []<-chan end{a.asks(w.Ctx, 2, takes(time.Second, "new", &runs)), b.asks(w.Ctx, 2, takes(time.Second, "new", &runs))}
				time.Sleep(time.Millisecond)
				forget(during)
				assert.Equal(t, end{"old", false, nil, 3 * time.Second}, <-first)
				w.Answer(nil)
				for range 2 {
					e := <-joins
					assert.NoError(t, e.err)
					if x.sharing {
						assert.Equal(t, "old", e.value)
					}
				}
				for _, ends := range after {
					for range 2 {
						e := <-ends
						assert.NoError(t, e.err)
						assert.Equal(t, "new", e.value)
					}
				}
				assert.LessOrEqual(t, runs.Load(), int32(3))
			})
		})
	}
}

// A function forgets its own value, and returns in the same microsecond.
func TestACallAfterAForgetInTheLastMomentOfAFunction(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		var runs atomic.Int32
		a := start(w, once.Options{})
		a.warm(w, a)
		var after <-chan end
		value, _, err := a.Do(w.Ctx, key, func(ctx context.Context) ([]byte, error) {
			time.Sleep(time.Second)
			require.NoError(t, a.Forget(ctx, key))
			after = a.asks(w.Ctx, 1, takes(time.Second, "new", &runs))
			synctest.Wait()
			return []byte("old"), nil
		})
		require.NoError(t, err)
		assert.Equal(t, "old", string(value))
		assert.Equal(t, end{"new", false, nil, time.Second}, <-after)
	})
}

// Callers join a flight whose look is in flight: Redis has found a kept value, which they take by
// another look, and run nothing. If it is forgotten before the answer comes, they asked after that
// Forget, and the others take the value.
func TestACallBesideALookTakesNothingThatIsForgotten(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
			var runs atomic.Int32
			o := once.Options{Keep: time.Hour}
			a, b := start(w, o), start(w, o)
			a.warm(w, b)
			<-b.asks(w.Ctx, 1, takes(0, "old", &runs))
			a.client.Net.SetRoundTrip(400 * time.Millisecond)
			first := a.asks(w.Ctx, 1, takes(0, "no", &runs))
			time.Sleep(250 * time.Millisecond) // Redis has looked
			if forgets {
				require.NoError(t, b.Forget(w.Ctx, key))
			}
			later := a.asks(w.Ctx, 2, takes(0, "new", &runs))
			assert.Equal(t, end{"old", true, nil, 400 * time.Millisecond}, <-first)
			for range 2 {
				if e := <-later; forgets {
					assert.Equal(t, "new", e.value)
				} else {
					assert.Equal(t, end{"old", true, nil, 550 * time.Millisecond}, e)
				}
			}
			assert.EqualValues(t, map[bool]int{false: 1, true: 2}[forgets], runs.Load())
		})
	}
}

// A value that is forgotten is not kept, nor is that of a function which ran then; the next one is.
func TestAForgottenValueIsNotKept(t *testing.T) {
	for name, o := range map[string]once.Options{"a value": {Keep: time.Hour}, "an error for all": {KeepErrors: time.Hour}} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				a, b, fails := start(w, o), start(w, o), o.KeepErrors > 0
				asks := func(p *process, d time.Duration, text string) <-chan string {
					result := make(chan string, 1)
					go func() {
						value, _, err := p.Do(w.Ctx, key, func(context.Context) ([]byte, error) {
							if time.Sleep(d); fails {
								return nil, once.ForAll(errors.New(text))
							}
							return []byte(text), nil
						})
						if fails {
							value = []byte(err.Error())
						}
						result <- string(value)
					}()
					return result
				}
				require.NoError(t, a.Forget(w.Ctx, key), "there is none")
				<-asks(a, 0, "old")
				require.NoError(t, b.Forget(w.Ctx, key))
				time.Sleep(time.Millisecond)
				assert.Equal(t, "new", <-asks(b, 0, "new"))
				assert.Equal(t, "new", <-asks(a, 0, "no"), "it is kept")

				require.NoError(t, a.Forget(w.Ctx, key))
				running := asks(a, time.Minute, "stale")
				synctest.Wait() // the value is forgotten when its function begins
				require.NoError(t, b.Forget(w.Ctx, key))
				waits := asks(b, 0, "newest")
				assert.Equal(t, "stale", <-running)
				assert.Equal(t, "newest", <-waits, "it asked after the Forget")
				assert.Equal(t, "newest", <-asks(b, 0, "no"))
				assert.Equal(t, "newest", <-asks(a, 0, "no"), "it is kept")
			})
		})
	}
}

// A value that Redis refuses is for those that asked before its function returned. The next caller
// does not wait for it, unless Options.Finish is set.
func TestAValueThatRedisRefusesIsNotWaitedFor(t *testing.T) {
	testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
		p := start(w, once.Options{Keep: time.Hour})
		p.warm(w, start(w, once.Options{Keep: time.Hour}))
		w.Answer(func(command string, args ...string) string {
			if strings.HasPrefix(command, "eval") && strings.Contains(strings.Join(args, " "), "refused text") {
				return "OOM command not allowed when used memory > 'maxmemory'."
			}
			return ""
		})
		p.client.Net.SetRoundTrip(time.Second)
		var runs atomic.Int32
		first := p.asks(w.Ctx, 1, takes(0, "refused text", &runs))
		time.Sleep(1500 * time.Millisecond) // the store is under way
		next := p.asks(w.Ctx, 1, takes(0, "another", &runs))
		assert.Equal(t, "refused text", (<-first).value)
		assert.Equal(t, "another", (<-next).value)
	})
}

func TestForgetWaitsForRedis(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		o := once.Options{Keep: time.Hour}
		p := start(w, o)
		var runs atomic.Int32
		<-p.asks(w.Ctx, 1, takes(0, "old", &runs))
		p.client.Net.Refuse()
		ctx, cancel := context.WithTimeout(w.Ctx, time.Second)
		defer cancel()
		err := p.Forget(ctx, key)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "last error")
		began := time.Now()
		time.AfterFunc(time.Minute, p.client.Net.Heal)
		require.NoError(t, p.Forget(w.Ctx, key))
		assert.Equal(t, 60540*time.Millisecond, time.Since(began), "each pause is twice as long as the one before, up to two seconds")
		assert.Equal(t, "new", (<-p.asks(w.Ctx, 1, takes(0, "new", &runs))).value)

		began = time.Now()
		require.ErrorIs(t, p.Forget(w.Ctx, ""), rlock.ErrInvalidName)
		w.AnswerScripts("NOPERM No permissions to access a key")
		require.ErrorIs(t, p.Forget(w.Ctx, key), rlock.ErrNoPermission)
		require.NoError(t, p.client.Close())
		require.ErrorIs(t, p.Forget(w.Ctx, key), rlock.ErrClosed)
		p.Group.Close()
		require.True(t, errors.Is(p.Forget(w.Ctx, key), once.ErrClosed))
		assert.Less(t, time.Since(began), time.Second, "nothing is tried again")
	})
}

// On the embedded server, a real one and a Cluster: one runs, those that wait get the value by a
// message or, if it is long, by a look, and those that come later get it while it is kept.
func TestOnServersOfEachSort(t *testing.T) {
	redistest.Over(t, testbed.OneOrMany, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		for name, o := range map[string]once.Options{"inline": {}, "long": {Inline: -1}, "kept": {Keep: time.Minute}} {
			t.Run(name, func(t *testing.T) {
				var runs atomic.Int32
				locks, entered := make([]*rlock.Client, 3), make(chan struct{}, 1)
				leave := make(chan struct{})
				groups := make([]*once.Group, 3)
				for i := range groups {
					locks[i] = s.NewClient()
					groups[i] = once.New(locks[i], o)
					defer groups[i].Close()
				}
				fn := func(context.Context) ([]byte, error) {
					runs.Add(1)
					entered <- struct{}{}
					<-leave
					return []byte("the value"), nil
				}
				var wg sync.WaitGroup
				ask := func(g *once.Group) {
					wg.Go(func() {
						value, _, err := g.Do(s.Ctx, testbed.Key, fn)
						assert.NoError(t, err)
						assert.Equal(t, "the value", string(value))
					})
				}
				began := time.Now()
				ask(groups[0])
				redistest.Await(t, entered)
				for i, g := range groups {
					for range 5 {
						ask(g)
					}
					awaitCallers(t, groups, i, 5)
					if i > 0 {
						s.AwaitWaiters(int64(i), testbed.Key)
					}
				}
				// A caller counts as one that asked later than it did by as long as Redis took to
				// execute its group's first command, and a value that was stored before that is not
				// for it.
				time.Sleep(time.Since(began))
				close(leave)
				wg.Wait()
				assert.EqualValues(t, 1, runs.Load())
				value, shared, err := groups[1].Do(s.Ctx, testbed.Key, func(context.Context) ([]byte, error) { return []byte("another"), nil })
				require.NoError(t, err)
				assert.Equal(t, o.Keep > 0, shared)
				assert.Equal(t, map[bool]string{true: "the value", false: "another"}[shared], string(value))
			})
		}
	})
}

// awaitCallers waits until that group has so many more callers. The first one has one whose
// function runs.
func awaitCallers(t *testing.T, groups []*once.Group, i, more int) {
	t.Helper()
	if i == 0 {
		more++
	}
	require.Eventually(t, func() bool { return groups[i].Callers(testbed.Key) == more }, testbed.Hang, time.Millisecond)
}
