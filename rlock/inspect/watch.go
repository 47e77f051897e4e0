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

	mu    sync.Mutex // guards the fields below
	nodes []*sweep   // the primaries
	found time.Time  // the time at which they were found
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
// command, in a Cluster by one command each; the user needs the right to EVAL and EVALSHA.
// Processes may be some seconds old, and readers whose leases have ended may be among the holders.
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

// ask fills in the locks with these indexes.
func (w *Watch) ask(ctx context.Context, r *wire.Redis, keys [][forms]*wire.Keys, asked []int, locks []Lock, errs []error) error {
	batches := [][]int{asked}
	if r.InCluster() { // a script has the keys of one slot
		batches = nil
		for n := range asked {
			batches = append(batches, asked[n:n+1])
		}
	}
	calls := make([]wire.Call, len(batches))
	for n, batch := range batches {
		calls[n] = lookCall(r, batch, keys)
	}
	results, err := wire.Promptly(ctx, r, 0, func(ctx context.Context) ([]rueidis.RedisResult, error) {
		results, _ := r.DoAll(ctx, calls)
		return results, nil
	})
	if err != nil {
		return err
	}
	for n, batch := range batches {
		answers, err := results[n].ToArray()
		if err == nil && len(answers) != len(batch) {
			err = fmt.Errorf("%d answers for %d locks", len(answers), len(batch))
		}
		for m, at := range batch {
			if errs[at] = wire.Explain(err); err != nil {
				continue
			}
			var replies []rueidis.RedisMessage
			if replies, errs[at] = answers[m].ToArray(); errs[at] == nil {
				i := inspection{Lock{Foreign: -1}}
				if errs[at] = i.read(replies, keys[at]); errs[at] == nil {
					i.readForeign(r, replies)
				}
				locks[at] = i.Lock
			}
		}
	}
	return nil
}

// lookCall returns the call of look.lua for the locks with these indexes.
func lookCall(r *wire.Redis, batch []int, keys [][forms]*wire.Keys) wire.Call {
	call := wire.Call{Script: lookScripts[0], Args: []string{strconv.Itoa(len(batch))}}
	if r.Sharded {
		call.Script = lookScripts[1]
	}
	for _, at := range batch {
		s := subjectOf(keys[at])
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
