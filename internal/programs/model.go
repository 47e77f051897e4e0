package programs

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/redisson"
)

// A model has the state of a synchronizer in Redis, in Go: a number, the permits that are taken,
// and the messages. Random calls of one caller, and changes of the keys by other programs, run
// beside the scripts while nothing breaks.
type model struct {
	*rand.Rand
	caller  *caller
	ctx     context.Context
	key     string
	set     string // the key of the permits that are taken
	channel string
	heard   []string // the messages on the channel

	semaphore *redisson.Semaphore
	permits   *redisson.PermitSemaphore
	latch     *redisson.CountDownLatch

	present  bool  // there is a number
	n        int64 // the number
	expires  bool  // the number expires
	taken    map[string]ending
	together bool // the set of the permits that are taken expires
	told     []string
	handles  map[string]*redisson.Permit
	log      []string
}

// An ending is the time at which a permit ends.
type ending int

const (
	ended ending = iota // the permit has ended
	later               // in an hour or more
	never
)

// A verb is one sort of call. It returns the result, and the result by the model.
type verb struct {
	weight int
	name   string
	call   func(m *model) (got, want any, err error)
}

func init() {
	lanes = append(lanes, row{
		"a synchronizer and its model", 8, func(w *World) bool { return w.Calm },
		func(g *generator, o *Op) {
			o.add(Choice{Name: "kind", N: g.IntN(3)})
			o.add(Choice{Name: "seed", N: g.IntN(1 << 20)})
		}, (*caller).model,
	})
}

// model runs random calls beside the model, of a synchronizer that no other caller has.
func (c *caller) model(o *Op) {
	r, name := c.run, fmt.Sprintf("%s%d", ownName, o.ID)
	ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
	defer cancel()
	m := &model{
		Rand: rand.New(rand.NewPCG(uint64(o.arg("seed").N), 42)), caller: c, ctx: ctx, key: r.program.World.Prefix + name,
		taken: make(map[string]ending), handles: make(map[string]*redisson.Permit),
	}
	braced := "{" + m.key + "}"
	if strings.Contains(m.key, "{") {
		braced = m.key
	}
	m.set, m.channel = braced+":timeout", "redisson_sc:"+braced
	verbs := semaphoreVerbs
	switch o.arg("kind").N {
	case 0:
		m.semaphore = c.m.sync.Semaphore(name)
	case 1:
		m.permits, verbs = c.m.sync.PermitSemaphore(name), permitVerbs
	case 2:
		m.latch, verbs, m.channel = c.m.sync.CountDownLatch(name), latchVerbs, "redisson_countdownlatch__channel__{"+m.key+"}"
	}
	verbs = slices.Concat(verbs, []verb{{1, "another program", outside}})
	hear, end := m.listen()
	defer end()
	for range 30 {
		v := weighted(m.Rand, verbs, func(v verb) int { return v.weight })
		m.log = append(m.log, v.name)
		got, want, err := v.call(m)
		if c.question(v.name, err, ctx); err != nil {
			return
		}
		found := m.found()
		hear()
		m.log = append(m.log, fmt.Sprintf("    %v, then %s", want, m))
		if fmt.Sprint(got) != fmt.Sprint(want) || found != m.String() || !slices.Equal(m.heard, m.told) && len(m.heard)+len(m.told) > 0 {
			r.problem("redisson: the last call of\n%s\nreturns %v, and leaves %s; messages %v, and not %v", strings.Join(m.log, "\n"), got, found, m.heard, m.told)
			return
		}
		m.heard, m.told = nil, nil
	}
}

// String returns the state in the form of found.
func (m *model) String() string {
	number, ends := "none", 0
	if m.present {
		number = fmt.Sprint(m.n)
	}
	for _, end := range m.taken {
		if end == never {
			ends++
		}
	}
	return fmt.Sprintf("%s (expires %v), %d taken, %d of them for ever (expires %v)", number, m.expires, len(m.taken), ends, m.together)
}

// found reads the state in Redis.
func (m *model) found() string {
	number := cmp.Or(m.do("GET", m.key), "none")
	return fmt.Sprintf("%s (expires %v), %s taken, %s of them for ever (expires %v)", number, m.do("PTTL", m.key)[0] != '-', m.do("ZCARD", m.set),
		m.do("ZCOUNT", m.set, "922337203685477", "922337203685477"), m.do("PTTL", m.set)[0] != '-')
}

// do executes a command of another program, and returns the reply as text, "" for none.
func (m *model) do(command, key string, args ...string) string {
	a := m.caller.run.admin[0]
	reply, err := a.Do(m.ctx, a.B().Arbitrary(command).Keys(key).Args(args...).Build()).ToAny()
	if rueidis.IsRedisNil(err) {
		return ""
	}
	if err != nil {
		reply = err
	}
	return fmt.Sprint(reply)
}

// listen subscribes to the channel. hear returns when all messages have come; in a Cluster it says
// what the model does. cancel ends the subscription.
func (m *model) listen() (hear, cancel func()) {
	a := m.caller.run.admin[0]
	if a.Mode() == rueidis.ClientModeCluster {
		return func() { m.heard = m.told }, func() {}
	}
	client, cancel := a.Dedicate()
	messages := make(chan string, 100)
	client.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(one rueidis.PubSubMessage) { messages <- one.Message }})
	if err := client.Do(m.ctx, client.B().Subscribe().Channel(m.channel).Build()).Error(); err != nil {
		m.caller.run.problem("redisson: the model does not listen: %v", err)
	}
	return func() {
		m.do("PUBLISH", m.channel, "end")
		for one := range messages {
			if one == "end" {
				return
			}
			m.heard = append(m.heard, one)
		}
	}, cancel
}

// tell publishes the number if it is above 0.
func (m *model) tell() {
	if m.present && m.n > 0 {
		m.told = append(m.told, fmt.Sprint(m.n))
	}
}

// add changes the number as INCRBY does.
func (m *model) add(n int64) { m.present, m.n = true, m.n+n }

func (m *model) drop() { m.present, m.n, m.expires = false, 0, false }

// remove takes permits back, and reports how many.
func (m *model) remove(which func(id string, end ending) bool) (n int) {
	n = len(m.taken)
	maps.DeleteFunc(m.taken, which)
	m.together = m.together && len(m.taken) > 0
	if n -= len(m.taken); n > 0 {
		m.add(int64(n))
		m.tell()
	}
	return n
}

// sweep takes the permits back that have ended.
func (m *model) sweep() { m.remove(func(_ string, end ending) bool { return end == ended }) }

// some returns a small number, or the greatest.
func (m *model) some() int { return []int{0, 1, 1, 2, 3, 5, 1<<31 - 1}[m.IntN(7)] }

// id returns the id of a permit that is taken, or an unknown one.
func (m *model) id() string {
	ids := slices.Sorted(maps.Keys(m.taken))
	if len(ids) == 0 || m.IntN(5) == 0 {
		return strings.Repeat("ab", 16)
	}
	return ids[m.IntN(len(ids))]
}

// done is the result of a call without a result.
const done = "done"

func (m *model) delete() bool {
	had := m.present || len(m.taken) > 0
	m.drop()
	clear(m.taken)
	m.together = false
	return had
}

// outside changes the number as another program does.
func outside(m *model) (any, any, error) {
	switch n := int64(m.IntN(7)) - 3; m.IntN(3) {
	case 0:
		m.do("DEL", m.key)
		m.drop()
	case 1:
		m.do("SET", m.key, fmt.Sprint(n))
		m.drop()
		m.add(n)
	default:
		m.do("PEXPIRE", m.key, "3600000")
		m.expires = m.present
	}
	return done, done, nil
}

// countVerbs returns the verbs that both semaphores have.
func countVerbs(kind string, of func(m *model) counter) []verb {
	return []verb{
		{1, kind + ".AddPermits", func(m *model) (any, any, error) {
			n := m.some() - 2
			err := of(m).AddPermits(m.ctx, n)
			m.add(int64(n))
			m.tell()
			return done, done, err
		}},
		{1, kind + ".TrySetPermits", func(m *model) (any, any, error) {
			n := m.some()
			got, err := of(m).TrySetPermits(m.ctx, n)
			want := !m.present
			if want {
				m.add(int64(n))
				m.tell()
			}
			return got, want, err
		}},
		{1, kind + ".Delete", func(m *model) (any, any, error) {
			got, err := of(m).Delete(m.ctx)
			return got, m.delete(), err
		}},
		{1, kind + ".Expire", func(m *model) (any, any, error) {
			after := time.Duration(m.IntN(2)) * time.Hour
			got, err := of(m).Expire(m.ctx, after)
			m.expires, m.together = m.present && after > 0, len(m.taken) > 0 && after > 0
			return got, m.present || len(m.taken) > 0, err
		}},
	}
}

// A counter is a semaphore.
type counter interface {
	AddPermits(context.Context, int) error
	TrySetPermits(context.Context, int) (bool, error)
	Delete(context.Context) (bool, error)
	Expire(context.Context, time.Duration) (bool, error)
}

var semaphoreVerbs = append(countVerbs("redisson.Semaphore", func(m *model) counter { return m.semaphore }), []verb{
	{3, "redisson.Semaphore.TryAcquire", func(m *model) (any, any, error) {
		n := m.some()
		got, err := m.semaphore.TryAcquire(m.ctx, n, 0)
		want := n == 0 || m.n >= int64(n)
		if want {
			m.n -= int64(n)
		}
		return got, want, err
	}},
	{2, "redisson.Semaphore.Release", func(m *model) (any, any, error) {
		n := m.some()
		err := m.semaphore.Release(m.ctx, n)
		if n > 0 {
			m.add(int64(n))
			m.tell()
		}
		return done, done, err
	}},
	{1, "redisson.Semaphore.ReleaseIfExists", func(m *model) (any, any, error) {
		n := m.some()
		got, err := m.semaphore.ReleaseIfExists(m.ctx, n)
		want := m.present && n > 0
		if want {
			m.add(int64(n))
			m.tell()
		}
		return got, want, err
	}},
	{1, "redisson.Semaphore.DrainPermits", func(m *model) (any, any, error) {
		got, err := m.semaphore.DrainPermits(m.ctx)
		want := max(m.n, 0)
		m.n -= want
		return got, want, err
	}},
	{1, "redisson.Semaphore.AvailablePermits", func(m *model) (any, any, error) {
		got, err := m.semaphore.AvailablePermits(m.ctx)
		return got, m.n, err
	}},
}...)

var permitVerbs = append(countVerbs("redisson.PermitSemaphore", func(m *model) counter { return m.permits }), []verb{
	{4, "redisson.PermitSemaphore.TryAcquireN", func(m *model) (any, any, error) {
		n := 1 + m.IntN(4)/2
		m.sweep()
		var got []*redisson.Permit
		var err error
		want := 0
		if m.n >= int64(n) {
			want = n
		}
		// The watchdog keeps no permit here: it would sweep at times of its own.
		if want > 0 && m.IntN(2) == 0 {
			got, err = on(m.caller.run.face, m.permits.AcquireN)(m.ctx, n, time.Hour)
		} else {
			got, err = m.permits.TryAcquireN(m.ctx, n, 0, time.Hour)
		}
		if want > 0 {
			m.n -= int64(n)
			m.together = m.together || m.expires
		}
		for _, one := range got {
			m.taken[one.ID()], m.handles[one.ID()] = later, one
		}
		return len(got), want, err
	}},
	{2, "redisson.PermitSemaphore.Release", func(m *model) (any, any, error) {
		id := m.id()
		got, err := m.permits.Release(m.ctx, id)
		want := m.taken[id] != ended
		m.remove(func(one string, _ ending) bool { return one == id })
		return got, want, err
	}},
	{1, "redisson.PermitSemaphore.ReleaseAll", func(m *model) (any, any, error) {
		a, b := m.id(), m.id()
		got, err := m.permits.ReleaseAll(m.ctx, a, b)
		want := 0
		m.remove(func(one string, end ending) bool {
			if one != a && one != b {
				return false
			}
			if end != ended {
				want++
			}
			return true
		})
		return got, want, err
	}},
	{1, "redisson.PermitSemaphore.UpdateLease", func(m *model) (any, any, error) {
		id, until, lease := m.id(), later, time.Hour
		if m.IntN(3) == 0 {
			until, lease = never, 0
		}
		got, err := m.permits.UpdateLease(m.ctx, id, lease)
		m.sweep()
		_, want := m.taken[id]
		if want {
			m.taken[id] = until
		}
		return got, want, err
	}},
	{1, "redisson.Permit.Extend", func(m *model) (any, any, error) {
		id := m.id()
		if m.taken[id] == ended {
			return done, done, nil
		}
		err := m.handles[id].Extend(m.ctx, 2*time.Hour)
		m.sweep()
		m.taken[id] = later
		return done, done, err
	}},
	{1, "redisson.PermitSemaphore.Lease", func(m *model) (any, any, error) {
		id := m.id()
		lease, err := m.permits.Lease(m.ctx, id)
		m.sweep()
		end, held := m.taken[id]
		want := []bool{held, end == never}
		if errors.Is(err, rlock.ErrNotHeld) {
			return []bool{false, false}, want, nil
		}
		return []bool{lease != 0, lease == rlock.NoExpiry}, want, err
	}},
	{1, "the lease ends", func(m *model) (any, any, error) {
		id := m.id()
		raw, _ := hex.DecodeString(id)
		m.do("ZADD", m.set, "XX", fmt.Sprint(m.IntN(2)), string(raw))
		if _, held := m.taken[id]; held {
			m.taken[id] = ended
		}
		return done, done, nil
	}},
	{1, "redisson.PermitSemaphore.SetPermits", func(m *model) (any, any, error) {
		n := m.some()
		err := m.permits.SetPermits(m.ctx, n)
		m.sweep()
		had, was := m.present, m.n
		m.present, m.n = true, int64(n-len(m.taken))
		if !had || was < m.n {
			m.tell()
		}
		return done, done, err
	}},
	{1, "redisson.PermitSemaphore.Permits", func(m *model) (any, any, error) {
		all, err1 := m.permits.Permits(m.ctx)
		free, err2 := m.permits.AvailablePermits(m.ctx)
		taken, err3 := m.permits.AcquiredPermits(m.ctx)
		m.sweep()
		return []int{free, taken, all}, []int64{m.n, int64(len(m.taken)), m.n + int64(len(m.taken))}, errors.Join(err1, err2, err3)
	}},
}...)

var latchVerbs = []verb{
	{2, "redisson.CountDownLatch.TrySetCount", func(m *model) (any, any, error) {
		n := int64(m.IntN(3) + 1)
		got, err := m.latch.TrySetCount(m.ctx, n)
		want := !m.present
		if want {
			m.add(n)
			m.told = append(m.told, "1")
		}
		return got, want, err
	}},
	{3, "redisson.CountDownLatch.CountDown", func(m *model) (any, any, error) {
		err := m.latch.CountDown(m.ctx)
		if m.present {
			if m.n--; m.n == 0 {
				m.told = append(m.told, "0")
			}
			if m.n <= 0 {
				m.drop()
			}
		}
		return done, done, err
	}},
	{1, "redisson.CountDownLatch.Count", func(m *model) (any, any, error) {
		got, err := m.latch.Count(m.ctx)
		return got, m.n, err
	}},
	{1, "redisson.CountDownLatch.Delete", func(m *model) (any, any, error) {
		got, err := m.latch.Delete(m.ctx)
		if m.present {
			m.told = append(m.told, "1")
		}
		return got, m.delete(), err
	}},
}
