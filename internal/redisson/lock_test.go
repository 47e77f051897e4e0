package redisson_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// promptly is longer than a message takes to wake a waiter. Without a message a waiter of Redisson sleeps until
// the lease has ended, 30 s; one of rlock looks sooner: losses.txt in rlock/tests/stories has its wake.
const promptly = 5 * time.Second

func TestLocksAreTheSameToBothSides(t *testing.T) {
	withBoth(t, setting{}, func(s *scene) {
		for _, kind := range []redisson.Kind{redisson.Plain, redisson.Fenced, redisson.Write} {
			s.run(string(kind), func(s *scene) {
				s.play("lock.txt", kind, kind)
				s.play("waits.txt", kind, kind)
			})
		}
		s.run("fair", func(s *scene) {
			s.play("lock.txt", redisson.Fair, redisson.Fair)
			s.play("lock.txt", redisson.Plain, redisson.Fair)
			s.play("waits.txt", redisson.Plain, redisson.Fair)
		})
		s.play("fenced.txt", redisson.Fenced, redisson.Fenced)
		s.play("readwrite.txt", redisson.Write, redisson.Write)
		s.run("names of any kind mean the same", names)
	})
}

// Keys, channels and their braces have to be the same bytes on both sides, and the slot with them: a waiter
// on another channel is not woken.
func names(s *scene) {
	for _, name := range []string{
		"a",
		"orders:42",
		"orders 42 ",
		"{orders}:42",
		"42:{orders}:{items}",
		"a{b",
		"a}b",
		"}{",
		"{}",
		`quoted"and\escaped`,
		"naïve",
		"заказ:42",
		"注文42",
		"🔒",
		"line\nfeed\ttab",
	} {
		for _, first := range []string{"go", "java"} {
			s.plays(name+first, redisson.Plain, redisson.Plain, first, "A lock", "B waits lock", "A unlock", "B has it", "B unlock")
		}
	}
}

func TestCrowdsOfThreadsAndGoroutinesLoseNoCount(t *testing.T) {
	withNewest(t, setting{lease: keptLease}, func(s *scene) { // a waiter of Redisson's that misses its message sleeps until the lease ends
		s.crowd(8, 4*time.Second, redisson.Plain)
		s.crowd(6, 3*time.Second, redisson.Fenced)
		s.crowd(4, 3*time.Second, redisson.Write)
	})
}

// crowd has so many threads and goroutines take the lock again and again. Each adds one to a counter in Redis,
// by a GET and a SET: only the lock keeps two from reading the same number. Beside writers there are as many
// readers, which look whether it changes meanwhile; tokens of a fenced lock grow.
func (s *scene) crowd(each int, during time.Duration, kind redisson.Kind) {
	lock, end := s.fresh(), time.Now().Add(during)
	counter, token := lock+":counter", 0 // protected by the lock
	var all sync.WaitGroup
	var mu sync.Mutex // guards had
	had := make(map[string]int)
	for i := range each {
		for _, who := range []string{"go", "java"} {
			add := func(what string, kind redisson.Kind, section func(got string) error) {
				a := s.newActor(who, fmt.Sprint(lock, what, i))
				all.Go(func() {
					n, _ := s.again(a, kind, lock, end, section)
					mu.Lock()
					defer mu.Unlock()
					had[who+what] += n
				})
			}
			add("", kind, func(got string) error {
				if n, _ := strconv.Atoi(got); kind == redisson.Fenced {
					assert.Greater(s.t, n, token, "tokens do not grow")
					token = n
				}
				n, err := s.counted(counter)
				return errors.Join(err, s.do("SET", counter, fmt.Sprint(n+1)).Error())
			})
			if kind == redisson.Write {
				add(" reads", redisson.Read, func(string) error {
					before, err := s.counted(counter)
					after, failed := s.counted(counter)
					assert.Equal(s.t, before, after, "a writer wrote during a read")
					return errors.Join(err, failed)
				})
			}
		}
	}
	all.Wait()
	n, err := s.counted(counter)
	require.NoError(s.t, err)
	s.t.Logf("%s sections: %v", kind, had)
	assert.Equal(s.t, had["go"]+had["java"], n, "a section that overlapped another lost its count")
	for who, sections := range had {
		assert.Positive(s.t, sections, who)
	}
}

func (s *scene) counted(counter string) (int, error) {
	n, err := s.do("GET", counter).AsInt64()
	if rueidis.IsRedisNil(err) {
		err = nil
	}
	return int(n), err
}

// again takes the lock again and again until a time, each time for a section, which gets the token of a fenced
// lock, and at least once. It returns how often, and the longest wait.
func (s *scene) again(a actor, kind redisson.Kind, lock string, end time.Time, section func(got string) error) (sections int, longest time.Duration) {
	take, give := "lock", "unlock"
	if _, java := a.(*thread); kind == redisson.Fenced {
		take = "lockAndGetToken"
		if !java {
			take, give = "acquire", "release"
		}
	}
	for ; (sections == 0 || time.Now().Before(end)) && !s.t.Failed(); sections++ {
		asked := time.Now()
		got, err := a.do(kind, lock, take, nil)
		longest = max(longest, time.Since(asked))
		if err == nil {
			err = section(got)
			_, failed := a.do(kind, lock, give, nil)
			err = errors.Join(err, failed)
		}
		assert.NoError(s.t, err)
	}
	return sections, longest
}

func TestReadersBehindAWriterInGoReadTogether(t *testing.T) {
	withOldAndNew(t, setting{lease: keptLease}, func(s *scene) { s.play("together.txt", redisson.Read, redisson.Read) })
}

// A lock that Go has passed on belongs to no thread of Java, and one with a note to another client.
func TestHoldsOfRlockAreLocksToRedisson(t *testing.T) {
	withOldAndNew(t, setting{lease: 3 * time.Second}, func(s *scene) {
		s.play("holds.txt", redisson.Plain, redisson.Plain)
		for _, kind := range []redisson.Kind{redisson.Plain, redisson.Fair, redisson.Read, redisson.Write, redisson.Fenced} {
			switch {
			case kind == redisson.Fenced && s.setting.version == redisson.Oldest: // has none
			case kind == redisson.Read: // a reader keeps a writer out
				s.play("note.txt", redisson.Write, kind)
			default:
				s.play("note.txt", kind, kind)
			}
		}
	})
}

// The lines of tenants wait for a lock that a thread of Java holds, and another thread waits for it
// among them, also one of Redisson's fair lock: each is served, and a tenant with one caller comes
// before most of a tenant with many.
func TestLinesAndThreadsTakeTurns(t *testing.T) {
	withOldAndNew(t, setting{}, func(s *scene) {
		for _, kind := range []redisson.Kind{redisson.Plain, redisson.Fair} {
			lock, holder, java := s.fresh(), s.java.Thread("one").With(kind), s.java.Thread("two").With(kind)
			do := func(t redisson.Thread, method string) error {
				_, err := t.Do(method, lock)
				return err
			}
			require.NoError(s.t, do(holder, "lock"))
			var mu sync.Mutex
			var order []string
			serve := func(caller string) { mu.Lock(); defer mu.Unlock(); order = append(order, caller) }
			var all []*call
			for i, line := range []string{"crowd", "crowd", "crowd", "crowd", "single"} {
				all = append(all, s.start(func() error {
					return s.client.NewFairLock(lock).Do(s.ctx, func(context.Context) error { serve(line); return nil }, rlock.WithLine(line))
				}))
				require.Eventually(s.t, func() bool {
					shown, err := inspect.Of(s.client).Lock(s.ctx, lock)
					return err == nil && shown.Waiting >= i+1
				}, redistest.Hang, time.Millisecond)
			}
			all = append(all, s.start(func() error {
				if err := do(java, "lock"); err != nil {
					return err
				}
				serve("java")
				return do(java, "unlock")
			}))
			s.awaitAsleep(java)
			require.NoError(s.t, do(holder, "unlock"))
			for _, w := range all {
				w.succeeds()
			}
			s.t.Log(kind, order)
			lines := slices.DeleteFunc(slices.Clone(order), func(caller string) bool { return caller == "java" })
			assert.Equal(s.t, []string{"crowd", "crowd", "single", "crowd", "crowd"}, lines)
		}
	})
}
