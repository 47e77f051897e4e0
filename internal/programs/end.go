package programs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/checker"
	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// unsure reports whether a write may have been executed in spite of its error.
func unsure(err error) bool {
	return errors.Is(err, rlock.ErrUnconfirmed) || !errors.Is(err, rlock.ErrFenced) && !errors.Is(err, errors.ErrUnsupported)
}

// end judges the rest when all lanes have ended and all faults are healed, and closes the clients.
func (r *Run) end() {
	time.Sleep(10 * time.Second) // leases end whose locks no client releases
	for _, s := range r.members {
		r.takeEachLock(s.Load())
	}
	ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
	defer cancel()
	r.judgeCounts(ctx)
	time.Sleep(5 * time.Second) // the Observer is called in a goroutine
	for _, s := range r.members {
		s.Load().judgeStats()
	}
	r.judgeData(ctx)
	r.judgeKeys(ctx)
	for _, s := range r.members {
		s.Load().leave()
	}
	for _, s := range r.members {
		r.gone = append(r.gone, s.Load())
	}
	r.judgeSights()
	r.judgeTakers()
	if r.ground.Virtual {
		time.Sleep(90 * time.Second)
		r.judgeKeys(ctx)
	}
	_ = r.injector.Close()
}

// takeEachLock judges that the client gets each lock at once.
func (r *Run) takeEachLock(m *member) {
	if m.setting.replicated() {
		return
	}
	all := []Lock{{"plain", "p"}, {"plain", "q"}, {"write", "rw"}, {"semaphore", "s"}, {"fenced", leaders}}
	if len(r.ground.Servers) > 1 {
		all = append(all, Lock{"red", red})
	}
	for _, l := range all {
		ctx, cancel := context.WithTimeout(r.ctx, 30*time.Second)
		var with []rlock.AcquireOption
		if l.Kind == "semaphore" {
			with = append(with, rlock.WithPermits(Permits))
		}
		began := r.now()
		hold, err := m.lock(l).Acquire(ctx, with...)
		switch {
		case err != nil:
			r.problem("in the end %s does not get %s: %v", m.name, l.Name, err)
		default:
			if took := r.now() - began; took > 2300*ms && r.ground.Virtual {
				r.problem("in the end %s gets %s after %v", m.name, l.Name, took)
			}
			if err := hold.Release(ctx); err != nil {
				r.problem("in the end %s does not release %s: %v", m.name, l.Name, err)
			}
		}
		cancel()
	}
}

// judgeStats compares the figures of a client with its locks and with what its Observer was told.
func (m *member) judgeStats() {
	r := m.run
	for _, c := range m.clients {
		s := on(r.face, on(r.face, inspect.Of)(c).Stats)()
		if s.Held != 0 || s.Waiting != 0 || len(inspect.Of(c).Held()) > 0 {
			r.problem("in the end %s: %+v, %v", m.name, s, inspect.Of(c).Held())
		}
		if sum := s.AcquiredByJoining + s.AcquiredByHandoff + s.AcquiredByRedis + s.AcquiredByQueue; s.Acquired < sum {
			r.problem("in the end %s: the ways of acquiring are more than the acquires: %+v", m.name, s)
		}
	}
	b, s := m.observed, inspect.Of(m.main()).Stats()
	r.mu.Lock()
	told := map[string][2]int64{
		"acquired by nesting": {s.AcquiredByNesting, b.by[rlock.ByNesting]}, "acquired by joining": {s.AcquiredByJoining, b.by[rlock.ByJoining]},
		"acquired by handoff": {s.AcquiredByHandoff, b.by[rlock.ByHandoff]}, "acquired by redis": {s.AcquiredByRedis, b.by[rlock.ByRedis]},
		"acquired by queue": {s.AcquiredByQueue, b.by[rlock.ByQueue]}, "acquired by pass": {s.AcquiredByPass, b.by[rlock.ByPass]},
		"answered": {s.Answered, b.answered}, "denied": {s.Denied, b.denied}, "lost unrenewed": {s.LostUnrenewed, b.lost[rlock.LostUnrenewed]},
		"lost with the lease": {s.LostLeaseEnded, b.lost[rlock.LostLeaseEnded]}, "held too long": {s.LostHeldTooLong, b.lost[rlock.LostHeldTooLong]},
		"key gone": {s.LostKeyGone, b.lost[rlock.LostKeyGone]}, "forced": {s.LostForced, b.lost[rlock.LostForced]},
	}
	unknown := b.overSeveral || b.missed > 0 || len(m.clients) > 1 // the parts of locks over several are counted, and not observed
	r.mu.Unlock()
	for what, n := range told {
		if n[0] != n[1] && !unknown {
			r.problem("in the end %s: %s %d times by Stats, and %d by the Observer", m.name, what, n[0], n[1])
		}
	}
}

// judgeData judges the data that callers have written beside their locks.
func (r *Run) judgeData(ctx context.Context) {
	admin := r.admin[0]
	for _, name := range []string{"p", "q", "rw", "s"} {
		key := func(beside string) string {
			return r.members[0].Load().main().NewLock(name).Key(beside)
		}
		entries, err := admin.Do(ctx, admin.B().Lrange().Key(key("log")).Start(0).Stop(-1).Build()).AsStrSlice()
		if err != nil {
			r.problem("the guarded writes of %s: %v", name, err)
			continue
		}
		number, _ := admin.Do(ctx, admin.B().Get().Key(key("v")).Build()).AsInt64()
		r.judgeWrites(name, entries, int(number))
	}
}

// sweep deletes a key.
func (r *Run) sweep(key string) {
	_ = r.admin[0].Do(r.ctx, r.admin[0].B().Del().Key(r.program.World.Prefix+key).Build()).Error()
}

// judgeKeys judges that no key stays in Redis but those that may: the counters of tokens, numbers
// of synchronizers, and what callers have written.
func (r *Run) judgeKeys(ctx context.Context) {
	for _, admin := range r.admin {
		for _, node := range admin.Nodes() {
			keys, err := node.Do(ctx, node.B().Keys().Pattern("*").Build()).AsStrSlice()
			if err != nil {
				continue // a replica that is gone
			}
			for _, key := range keys {
				left, err := node.Do(ctx, node.B().Pttl().Key(key).Build()).AsInt64()
				if err != nil || left >= 0 && left < 25*3600*1000 || left == -2 || stays(key) {
					continue
				}
				r.problem("in the end the key %s is left, and does not expire (%d)", key, left)
			}
		}
	}
}

func stays(key string) bool {
	if strings.HasPrefix(key, "redisson_lock_token:") || strings.Contains(key, ownName) || strings.HasPrefix(key, "xl") || strings.HasPrefix(key, "{prefix}:xl") || strings.HasSuffix(key, ":v") || strings.HasSuffix(key, ":log") {
		return true
	}
	for _, name := range []string{semaphoreName, permitsName, changedName} {
		if strings.HasSuffix(key, name) {
			return true
		}
	}
	return false
}

// Problems judges the history, and returns all problems of the run, the first first. Call it
// outside of the bubble.
func (r *Run) Problems() []string {
	late := 30 * ms
	if !r.ground.Virtual {
		late = 2 * time.Second // the machine may be busy
	}
	options := checker.Options{Late: late}
	if r.sane() && r.ground.Virtual && !slices.ContainsFunc(r.program.World.Clients, Client.replicated) {
		options.Patience = idle
	}
	for _, v := range checker.Check(r.history, options).Violations {
		r.problems = append(r.problems, "checker: "+v.String())
	}
	return r.problems
}

// idle is the longest time for which a lock may be free while a call waits for it and nothing
// breaks.
const idle = 300 * ms

// looks is the time within which a waiter looks: no message tells it that a shortened lease has
// ended.
const looks = 2 * time.Second

// apart notes in the history that a lock may be held without a caller that knows it.
func (r *Run) apart(l Lock, from, to time.Duration) {
	if !r.sane() {
		return // the faults excuse all waits
	}
	for _, name := range l.names() {
		r.injector.Happened(history.Fault{What: "held without a caller", Name: name}, history.At(r.begin.Add(from)), history.At(r.begin.Add(to)))
	}
}

// A note is what Redis should have beside a lock.
type note struct {
	writes      map[string]bool // the guarded writes, and whether they were surely executed
	log         map[string]bool // the guarded writes of holds that share the lock: they may stand in any order
	least, most int             // how often the number was counted up
}

// note calls do with the note of the hold's lock.
func (g *grant) note(do func(n *note)) {
	r, name := g.run(), g.call.lock.Name
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.notes[name] == nil {
		r.notes[name] = &note{writes: make(map[string]bool), log: make(map[string]bool)}
	}
	do(r.notes[name])
}

func (g *grant) noteWrite(entry string, err error) {
	g.note(func(n *note) {
		if err == nil || unsure(err) {
			n.writes[entry] = err == nil
		}
		n.log[entry] = g.call.shares
	})
}

// noteCount notes that a number was counted up.
func (g *grant) noteCount(err error) {
	g.note(func(n *note) {
		if err == nil {
			n.least++
		}
		if err == nil || unsure(err) {
			n.most++
		}
	})
}

// judgeWrites judges the guarded writes of a lock, in the order in which Redis has them, and its
// number.
func (r *Run) judgeWrites(name string, entries []string, number int) {
	n := r.notes[name]
	if r.flushed.Load() || n == nil {
		return
	}
	found, ended, last := make(map[string]bool), make(map[string]bool), ""
	for _, e := range entries {
		if _, known := n.writes[e]; !known || found[e] {
			r.problem("%s: a guarded write that was refused, or came twice: %s", name, e)
		}
		if found[e] = true; n.log[e] {
			continue
		}
		of, _, _ := strings.Cut(e, "|")
		if !r.forgotten[name] && of != last && ended[of] {
			r.problem("%s: a guarded write of %s after another hold's", name, e)
		}
		ended[of], last = true, of
	}
	for e, sure := range n.writes {
		if sure && !found[e] {
			r.problem("%s: a guarded write that was confirmed is not there: %s", name, e)
		}
	}
	if number < n.least || number > n.most {
		r.problem("%s: the number that holds counted up is %d, and should be %d to %d", name, number, n.least, n.most)
	}
}
