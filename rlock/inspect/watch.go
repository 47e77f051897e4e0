package inspect

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

//go:embed look.lua
var lookText string

// The scripts that put the questions, by the family of pub/sub: plain or sharded.
var lookScripts = [2]*wire.Script{lookScript(false), lookScript(true)}

// lookScript returns look.lua with its questions.
func lookScript(sharded bool) *wire.Script {
	var text strings.Builder
	for at, question := range questions(sharded) {
		words := make([]string, len(question))
		for n, word := range question {
			switch index, _ := strconv.Atoi(word[1:]); word[0] {
			case '$':
				words[n] = fmt.Sprintf("KEYS[key + %d]", index+1)
			case '@':
				words[n] = fmt.Sprintf("ARGV[channel + %d]", index+1)
			default:
				words[n] = "'" + word + "'"
			}
		}
		put := fmt.Sprintf("answers[%d] = pcall(%s)", at+1, strings.Join(words, ", "))
		if condition := asksIf[at]; condition != "" {
			put = fmt.Sprintf("if %s then %s else answers[%d] = false end", condition, put, at+1)
		}
		text.WriteString(put + "\n")
	}
	return wire.ScriptOf(strings.Replace(lookText, "-- (questions)\n", text.String(), 1))
}

const (
	// watchCount is the number of keys that a server looks at for one page of a Watch.
	watchCount = 10_000
	// nodesAge and processesAge are the ages at which a Watch finds out the primaries again, and the
	// processes if one of them is not known.
	nodesAge, processesAge = 10 * time.Second, 5 * time.Second
)

// A Watch looks at many locks again and again, for example for a page that shows them, at little
// cost to Redis: a round of Names and Locks takes two commands, or three. Its methods may be called
// concurrently.
type Watch struct {
	inspector Inspector
	tokenless atomic.Bool // the user may not read tokens

	mu    sync.Mutex // guards the fields below
	nodes []*sweep   // the primaries
	found time.Time  // the time at which the primaries were found; zero if they are to be found again
	round int
}

// A sweep is the progress of a scan through the keyspace of a node.
type sweep struct {
	node    rueidis.Client
	cursors [len(keyTypes)]uint64
}

// Watch returns a Watch. It sends no command, and needs no Close.
func (i Inspector) Watch() *Watch { return &Watch{inspector: i} }

// Names reads up to 10,000 further keys of each primary, and returns the names that may be locks,
// of any kind: Locks tells whether they are. After the last key it begins again, so that each lock
// that stays held is among the names again and again. A semaphore is looked for in every second
// round. Beside an error Names may return the names of the other nodes.
func (w *Watch) Names(ctx context.Context) (names []string, err error) {
	r := w.inspector.driver.Redis
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.find(ctx, r); err != nil {
		return nil, fmt.Errorf("rlock: list locks: %w", wire.ExplainTo(ctx, err))
	}
	w.round++
	for _, s := range w.nodes {
		for at, of := range keyTypes[:1+w.round%len(keyTypes)] {
			found, failed := wire.Promptly(ctx, r, 0, func(ctx context.Context) (rueidis.ScanEntry, error) {
				pattern := wire.Literal(w.inspector.prefix) + "*"
				return s.node.Do(ctx, s.node.B().Scan().Cursor(s.cursors[at]).Match(pattern).Count(watchCount).Type(of.name).Build()).AsScanEntry()
			})
			if failed != nil {
				w.found = time.Time{} // the node may be a primary no more
				err = errors.Join(err, wire.ExplainTo(ctx, failed))
				break
			}
			s.cursors[at] = found.Cursor
			for _, key := range found.Elements {
				if !strings.HasPrefix(key, "rlock_queue:") { // a sorted set, as a semaphore is
					names = append(names, w.inspector.named(key))
				}
			}
		}
	}
	if err != nil {
		err = fmt.Errorf("rlock: list locks: %w", err)
	}
	return names, err
}

// find finds the primaries. It needs the mutex.
func (w *Watch) find(ctx context.Context, r *wire.Redis) error {
	if time.Since(w.found) < nodesAge && !r.Stopped() {
		return nil
	}
	if err := r.AwaitConnection(ctx, nil); err != nil {
		return err
	}
	if err := r.AtPrimary(ctx); err != nil {
		return err
	}
	known := make(map[rueidis.Client]*sweep)
	for _, s := range w.nodes {
		known[s.node] = s
	}
	w.nodes = nil
	for _, node := range r.EachNode() {
		if r.InCluster() {
			hello, err := wire.Promptly(ctx, r, 0, func(ctx context.Context) (map[string]string, error) { return r.Hello(ctx, node) })
			if err == nil && hello["role"] != "master" {
				continue // if it does not answer, Names fails
			}
		}
		s := known[node]
		if s == nil {
			s = &sweep{node: node}
		}
		w.nodes = append(w.nodes, s)
	}
	w.found = time.Now()
	return nil
}

// Locks returns the state of each lock in Redis, like [Inspector.Lock], which says more about
// errors. A lock is valid if the error with the same index is nil. The locks are read by one
// command, in a Cluster by one command each; the user needs the right to EVAL and EVALSHA. A lock
// whose key the user may not read has the error [rlock.ErrNoPermission]. Processes may be some
// seconds old, and readers whose leases have ended may be among the holders.
func (w *Watch) Locks(ctx context.Context, names []string) ([]Lock, []error) {
	locks, errs := make([]Lock, len(names)), make([]error, len(names))
	r, keys, asked := w.inspector.driver.Redis, make([][forms]*wire.Keys, len(names)), []int(nil)
	failed := r.AwaitConnection(ctx, nil)
	for at, name := range names {
		if keys[at], errs[at] = w.inspector.keysOf(name); errs[at] == nil {
			asked = append(asked, at)
		}
	}
	if failed == nil && len(asked) > 0 {
		failed = w.ask(ctx, r, keys, asked, locks, errs)
	}
	for at, name := range names {
		switch errs[at] = wire.ExplainTo(ctx, cmp.Or(errs[at], failed)); {
		case errs[at] != nil:
			locks[at], errs[at] = Lock{}, fmt.Errorf("rlock: inspect %q: %w", name, errs[at])
		case locks[at].HolderCount+locks[at].Waiting > 0:
			locks[at].Name = name
			i := inspection{locks[at]}
			if i.locate(r.ProcessesWithin(ctx, keys[at][0], math.MaxInt64)); !i.located() {
				i.locate(r.ProcessesWithin(ctx, keys[at][0], processesAge))
			}
			locks[at] = i.Lock
		default:
			locks[at].Name = name
		}
	}
	return locks, errs
}

// A batch is the locks that one script reads.
type batch struct {
	locks     []int // the indexes of the locks
	tokenless bool  // their tokens are left out: only users of fenced locks have the right to the keys of tokens
}

// ask fills in the locks with these indexes. Redis refuses a script for one key that the user may
// not read, so a batch that was refused is asked without tokens, and then by halves.
func (w *Watch) ask(ctx context.Context, r *wire.Redis, keys [][forms]*wire.Keys, asked []int, locks []Lock, errs []error) error {
	todo := []batch{{asked, w.tokenless.Load()}}
	if r.InCluster() { // a script has the keys of one slot
		todo = nil
		for n := range asked {
			todo = append(todo, batch{asked[n : n+1], w.tokenless.Load()})
		}
	}
	for len(todo) > 0 {
		calls := make([]wire.Call, len(todo))
		for n, b := range todo {
			calls[n] = b.call(r, keys)
		}
		results, err := wire.Promptly(ctx, r, 0, func(ctx context.Context) ([]rueidis.RedisResult, error) {
			results, _ := r.DoAll(ctx, calls)
			return results, nil
		})
		if err != nil {
			return err
		}
		var again []batch
		for n, b := range todo {
			answers, err := results[n].ToArray()
			if err == nil && len(answers) != len(b.locks) {
				err = fmt.Errorf("%d answers for %d locks", len(answers), len(b.locks))
			}
			half := len(b.locks) / 2
			switch refused := isKeyRefused(err); {
			case refused && !b.tokenless:
				again = append(again, batch{b.locks, true})
			case refused && half > 0:
				again = append(again, batch{b.locks[:half], w.tokenless.Load()}, batch{b.locks[half:], w.tokenless.Load()})
			case err != nil:
				for _, at := range b.locks {
					errs[at] = wire.Explain(err)
				}
			default:
				w.tokenless.Store(b.tokenless)
				for m, at := range b.locks {
					locks[at], errs[at] = readAnswers(r, &answers[m], keys[at])
				}
			}
		}
		todo = again
	}
	return nil
}

// isKeyRefused reports whether Redis refuses a command for one of its keys.
func isKeyRefused(err error) bool {
	return errors.Is(wire.Explain(err), wire.ErrNoPermission) && !strings.Contains(err.Error(), "command")
}

// readAnswers reads the answers about one lock.
func readAnswers(r *wire.Redis, answers *rueidis.RedisMessage, keys [forms]*wire.Keys) (Lock, error) {
	i := inspection{Lock{Foreign: -1}}
	replies, err := answers.ToArray()
	if err == nil {
		err = i.read(replies, keys)
	}
	if err == nil {
		i.readForeign(r, replies)
	}
	return i.Lock, err
}

// call returns the call of look.lua for the batch.
func (b batch) call(r *wire.Redis, keys [][forms]*wire.Keys) wire.Call {
	call := wire.Call{Script: lookScripts[0], Args: []string{strconv.Itoa(len(b.locks))}}
	if r.Sharded {
		call.Script = lookScripts[1]
	}
	for _, at := range b.locks {
		s := subjectOf(keys[at])
		if b.tokenless {
			s.keys[1] = s.keys[0] // which has no token
		}
		call.Keys, call.Args = append(call.Keys, s.keys...), append(call.Args, s.channels...)
	}
	return call
}

// keysOf returns the keys of the lock of that name, by form.
func (i Inspector) keysOf(name string) (keys [forms]*wire.Keys, err error) {
	key := i.keyOf(name)
	for at, id := range [forms]driver.KindID{driver.FencedKind, driver.ReadWriteKind, driver.SemaphoreKind} {
		n := i.driver.NewName(id, key)
		if n.Err != nil && at == 0 {
			return keys, n.Err
		}
		keys[at] = &n.Keys
	}
	return keys, nil
}
