package redisson_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	jvm "github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/redisson"
)

// A story is played on one name. Its title stands alone, and its commands are indented:
//
//	go tryLock 200ms 1m => false     an actor, the method by its name in Redisson, arguments, and the outcome: "not held"
//	                                 is the refusal of either side; "soon 1" repeats the call until its outcome is 1
//	java read lock                   a lock of another kind than the play's
//	B waits lock                     a call in the background, whose thread sleeps when the next command begins
//	go2 stands lock                  the same, for a goroutine in the line of its process
//	B has it                         the call returns within five seconds of the last command, with "within 10s" in ten
//	redis EXISTS LOCK => 0           a command of Redis; LOCK stands for the name
//
// Actors whose names begin with java and go are threads and owners of one process each; elsewhere is an owner
// in another process. A story with A and B is played twice: A is go, and B java, and the other way round.
type play struct {
	*scene
	lock         string
	java, golang jvm.Kind          // the kinds of their locks, where a command names none
	who          map[string]string // the actors A and B
	calls        map[string]*call  // calls in the background
	actors       map[string]actor
	last         time.Time // the beginning of the last command that was not in the background
}

// An actor is one thread of Java, or one owner in Go.
type actor interface {
	do(kind jvm.Kind, lock, verb string, args []string) (string, error)
}

var kinds = []jvm.Kind{jvm.Read, jvm.Write, jvm.Semaphore, jvm.Permits, jvm.Latch}

// play plays the stories of a file, with locks of a kind of each side.
func (s *scene) play(file string, java, golang jvm.Kind) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(s.t, err)
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		title, commands, _ := strings.Cut(part, "\n")
		if strings.HasPrefix(title, "#") {
			continue
		}
		s.run(title, func(s *scene) {
			lines := strings.Split(commands, "\n")
			if !strings.Contains(part, "\n  A ") {
				s.plays(s.fresh(), java, golang, lines...)
				return
			}
			for _, first := range []string{"go", "java"} {
				s.run(first+" first", func(s *scene) { s.plays(s.fresh(), java, golang, append([]string{first}, lines...)...) })
			}
		})
	}
}

// plays plays commands on a name. A first line of one word is the actor A.
func (s *scene) plays(lock string, java, golang jvm.Kind, lines ...string) {
	s.t.Helper()
	p := &play{scene: s, lock: lock, java: java, golang: golang, calls: make(map[string]*call), actors: make(map[string]actor)}
	p.who = map[string]string{"A": "go", "B": "java"}
	if lines[0] == "java" {
		p.who = map[string]string{"A": "java", "B": "go"}
	}
	for _, line := range lines {
		if strings.Contains(strings.TrimSpace(line), " ") {
			p.command(strings.TrimSpace(line))
		}
	}
}

func (p *play) command(line string) {
	t := p.t
	t.Helper()
	line, limit, limited := strings.Cut(line, " within ")
	text, want, _ := strings.Cut(line, " => ")
	words := strings.Fields(text)
	who := words[0]
	if of := p.who[who]; of != "" {
		who = of
	}
	kind := p.golang
	if strings.HasPrefix(who, "java") {
		kind = p.java
	}
	if slices.Contains(kinds, jvm.Kind(words[1])) {
		kind, words = jvm.Kind(words[1]), words[1:]
	}
	within := promptly
	if limited {
		within, _ = time.ParseDuration(limit)
	}
	switch verb := words[1]; {
	case who == "redis":
		p.eventually(line, strings.TrimPrefix(want, "soon "), func() (string, error) { return p.redis(words[1:]) })
	case verb == "has":
		c := p.calls[who]
		assert.Less(t, c.succeeds().Sub(p.last), within, "%s: it was not woken, it looked by itself", line)
		delete(p.calls, who)
	case verb == "waits" && len(words) == 2:
		select {
		case <-p.calls[who].done:
			assert.Fail(t, "it has it", line)
		default:
		}
	case verb == "waits" || verb == "stands":
		a := p.actor(who)
		p.calls[who] = p.start(func() error {
			got, err := a.do(kind, p.lock, words[2], words[3:])
			if err == nil && got == "false" {
				err = errors.New("not within the wait")
			}
			return err
		})
		switch java, ok := a.(*thread); {
		case ok:
			p.awaitAsleep(java.Thread)
		case verb == "stands":
			require.Eventually(t, func() bool { return inspect.Of(a.(*owner).client).Stats().Waiting > 0 }, redistest.Hang, time.Millisecond)
		case kind != jvm.Latch: // no message that a latch waits for can be missed
			p.awaitWaiter(kind, p.lock)
		}
	default:
		p.last = time.Now()
		ask := func() (string, error) { return p.actor(who).do(kind, p.lock, verb, p.ids(words[2:])) }
		if soon, ok := strings.CutPrefix(want, "soon "); ok {
			p.eventually(line, soon, ask)
			return
		}
		got, err := ask()
		took := time.Since(p.last)
		if limited {
			assert.Less(t, took, within, line)
		}
		want, least, _ := strings.Cut(want, " after ")
		if d, err := time.ParseDuration(least); err == nil {
			assert.GreaterOrEqual(t, took, d, line)
		}
		require.True(t, is(want, got, err), "%s: %s %v", line, got, err)
	}
}

func (p *play) eventually(line, want string, ask func() (string, error)) {
	p.t.Helper()
	require.EventuallyWithT(p.t, func(c *assert.CollectT) {
		got, err := ask()
		assert.True(c, is(want, got, err), "%s: %s %v", line, got, err)
	}, redistest.Hang, time.Millisecond)
}

// is reports whether an outcome is the one that is wanted. If none is, there must be no error.
func is(want, got string, err error) bool {
	least, most, span := strings.Cut(want, "-")
	switch {
	case want == "not held":
		return notHeld(err)
	case want == "not passed":
		return errors.Is(err, rlock.ErrNotPassed)
	case want == "" || err != nil:
		return err == nil
	case span:
		from, _ := time.ParseDuration(least)
		to, _ := time.ParseDuration(most)
		ms, _ := strconv.Atoi(got)
		left := time.Duration(ms) * time.Millisecond
		return from <= left && left <= to
	case want == "free": // Redisson's word for it is -2
		return got == "-2" || got == "0"
	}
	return want == got
}

// notHeld reports whether the error says, in Java or in Go, that the caller does not hold the lock, or has lost it.
func notHeld(err error) bool {
	var e *jvm.Exception
	if errors.As(err, &e) {
		return e.Class == "java.lang.IllegalMonitorStateException"
	}
	return errors.Is(err, rlock.ErrNotHeld) || errors.Is(err, rlock.ErrLost)
}

// redis sends a command. Of a hash it returns the numbers, which are the depths of the owners.
func (p *play) redis(words []string) (string, error) {
	for i, word := range words {
		words[i] = strings.ReplaceAll(word, "LOCK", p.setting.prefix+p.lock)
	}
	reply := p.do(words[0], words[1], words[2:]...)
	if n, err := reply.AsInt64(); err == nil {
		return fmt.Sprint(n), nil
	}
	values, err := reply.AsStrSlice()
	values = slices.DeleteFunc(values, func(v string) bool { _, err := strconv.Atoi(v); return err != nil })
	return strings.Join(values, " "), err
}

// ids replaces the name of each actor by the id of its permit.
func (p *play) ids(words []string) []string {
	words = slices.Clone(words)
	for i, word := range words {
		switch a := p.actors[word].(type) {
		case *thread:
			words[i] = a.permit
		case *owner:
			words[i] = a.permit.ID()
		}
	}
	return words
}

// actor returns the actor of that name, and makes it the first time.
func (p *play) actor(name string) actor {
	if p.actors[name] == nil {
		p.actors[name] = p.newActor(name, p.lock)
	}
	return p.actors[name]
}

// newActor returns the owner or the thread of that name; threads of different places are different.
func (s *scene) newActor(who, place string) actor {
	o := &owner{client: s.client, ctx: rlock.WithOwner(s.ctx, rlock.NewOwner())}
	switch {
	case who == "elsewhere":
		o.client = s.startGo()
	case !strings.HasPrefix(who, "go"):
		return &thread{Thread: s.java.Thread(place + who)}
	}
	return o
}

// A thread is a thread of Java.
type thread struct {
	jvm.Thread
	permit string // the id of its last permit
}

func (t *thread) do(kind jvm.Kind, lock, verb string, args []string) (string, error) {
	var given []any
	timed := false
	for _, arg := range args {
		if n, err := strconv.Atoi(arg); err == nil {
			given = append(given, n)
		} else if d, err := time.ParseDuration(arg); err == nil {
			given, timed = append(given, d.Milliseconds()), true
		} else {
			given = append(given, arg)
		}
	}
	if verb == "tryLock" && len(given) == 1 {
		given = append(given, -1) // the watchdog
	}
	if timed {
		given = append(given, jvm.Milliseconds)
	}
	got, err := t.With(kind).Do(verb, lock, given...)
	got = strings.Trim(strings.TrimPrefix(got, "null"), `"`)
	if kind == jvm.Permits && verb == "acquire" {
		t.permit = got
	}
	return got, err
}

// An owner is an owner in Go.
type owner struct {
	client *rlock.Client
	ctx    context.Context // carries the rlock.Owner
	hold   *rlock.Hold
	pass   string
	permit *redisson.Permit // its last permit
}

func (o *owner) lock(kind jvm.Kind, name string) *rlock.Lock {
	switch kind {
	case jvm.Fenced:
		return o.client.NewFencedLock(name)
	case jvm.Fair:
		return o.client.NewFairLock(name)
	case jvm.Read:
		return o.client.NewReadWriteLock(name).Read()
	case jvm.Write:
		return o.client.NewReadWriteLock(name).Write()
	default:
		return o.client.NewLock(name)
	}
}

func (o *owner) do(kind jvm.Kind, name, verb string, args []string) (got string, err error) {
	var d [2]time.Duration
	var n int
	for i, arg := range args {
		d[i], _ = time.ParseDuration(arg)
		n, _ = strconv.Atoi(arg)
	}
	switch kind {
	case jvm.Semaphore:
		return o.semaphore(redisson.New(o.client).Semaphore(name), verb, n)
	case jvm.Permits:
		return o.permits(redisson.New(o.client).PermitSemaphore(name), verb, n, d[0])
	case jvm.Latch:
		return o.latch(redisson.New(o.client).CountDownLatch(name), verb)
	}
	lock := o.lock(kind, name)
	switch verb {
	case "lock":
		return "", lock.LockFor(o.ctx, d[0])
	case "tryLock":
		return text(lock.TryLockFor(o.ctx, d[0], d[1]))
	case "unlock":
		return "", lock.Unlock(o.ctx)
	case "forceUnlock":
		return text(lock.ForceUnlock(o.ctx))
	case "isLocked":
		return text(lock.IsLocked(o.ctx))
	case "isHeldByCurrentThread":
		return text(lock.IsHeld(o.ctx), nil)
	case "getHoldCount":
		return text(lock.HoldCount(o.ctx), nil)
	case "remainTimeToLive":
		left, err := lock.TTL(o.ctx)
		return text(left.Milliseconds(), err)
	case "acquire":
		var options []rlock.AcquireOption
		switch {
		case slices.Contains(args, "note"):
			options = append(options, rlock.WithNote("job *7:write #~"))
		case slices.Contains(args, "takeover"):
			options = append(options, rlock.WithTakeover(100*time.Millisecond))
		case d[0] > 0:
			options = append(options, rlock.WithLease(d[0]))
		}
		if o.hold, err = lock.Acquire(o.ctx, options...); err != nil || kind != jvm.Fenced {
			return "", err
		}
		return text(o.hold.Token())
	case "release":
		return "", o.hold.Release(o.ctx)
	case "pass":
		o.pass, err = o.hold.Pass(o.ctx, d[0])
		return "", err
	case "resume":
		o.hold, err = o.client.Resume(o.ctx, o.pass)
		return "", err
	case "loses":
		select {
		case <-o.hold.Context().Done(): // with the next renewal
			if cause := context.Cause(o.hold.Context()); !errors.Is(cause, rlock.ErrLost) {
				return "", cause
			}
			return "", nil
		case <-o.ctx.Done():
			return "", o.ctx.Err()
		}
	default:
		return "", errors.New("no verb " + verb)
	}
}

func (o *owner) semaphore(s *redisson.Semaphore, verb string, n int) (string, error) {
	switch verb {
	case "trySetPermits":
		return text(s.TrySetPermits(o.ctx, n))
	case "acquire":
		return "", s.Acquire(o.ctx, n)
	case "release":
		return "", s.Release(o.ctx, n)
	default:
		return "", errors.New("no verb " + verb)
	}
}

func (o *owner) permits(s *redisson.PermitSemaphore, verb string, n int, lease time.Duration) (_ string, err error) {
	switch verb {
	case "trySetPermits":
		return text(s.TrySetPermits(o.ctx, n))
	case "acquire":
		o.permit, err = s.Acquire(o.ctx, lease)
		return "", err
	case "release":
		return "", o.permit.Release(o.ctx)
	default:
		return "", errors.New("no verb " + verb)
	}
}

func (o *owner) latch(l *redisson.CountDownLatch, verb string) (string, error) {
	switch verb {
	case "await":
		return "", l.Await(o.ctx)
	case "count":
		return text(l.Count(o.ctx))
	case "countDown":
		return "", l.CountDown(o.ctx)
	default:
		return "", errors.New("no verb " + verb)
	}
}

func text[T any](value T, err error) (string, error) { return fmt.Sprint(value), err }
