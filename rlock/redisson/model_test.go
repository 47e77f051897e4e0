package redisson_test

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/redisson"
)

// The model is what each synchronizer is in Redis, in Go: a number, the permits that are taken, and
// the messages. Random calls, and what other programs do to the keys, run beside the scripts.
//
//	RLOCK_SERVER=$(command -v redis-server) go test -run TestTheModel ./rlock/redisson -sequences 2000
var sequences = flag.Int("sequences", 60, "of random calls for each synchronizer beside its model")

const callsOfASequence = 30

// A model is the state of the keys. Only the number may be one that no call leaves.
type model struct {
	random   *rand.Rand
	present  bool  // whether there is a number
	n        int64 // the number
	expires  bool  // whether it does
	taken    map[string]ending
	together bool // whether the set of those that are taken expires
	told     []string
	log      []string
}

// An ending is when a permit ends.
type ending int

const (
	ended ending = iota // it has
	later               // in an hour
	never
)

// A draw is a random call: what it does to the model, and to Redis; both return the result.
type draw struct {
	what  string
	model func(m *model) string
	call  func() (any, error)
}

func TestTheModelOfASemaphore(t *testing.T) {
	onServers(t, func(t *testing.T, c *redisson.Client, p *program) {
		s := c.Semaphore("m")
		runModel(p, "redisson_sc:{m}", func(m *model) draw { return drawSemaphore(t.Context(), m, p, s) })
	})
}

func TestTheModelOfASemaphoreOfPermits(t *testing.T) {
	onServers(t, func(t *testing.T, c *redisson.Client, p *program) {
		s := c.PermitSemaphore("m")
		runModel(p, "redisson_sc:{m}", func(m *model) draw { return drawPermits(t.Context(), m, p, s) })
	})
}

func TestTheModelOfALatch(t *testing.T) {
	onServers(t, func(t *testing.T, c *redisson.Client, p *program) {
		l := c.CountDownLatch("m")
		runModel(p, "redisson_countdownlatch__channel__{m}", func(m *model) draw { return drawLatch(t.Context(), m, p, l) })
	})
}

func runModel(p *program, channel string, next func(m *model) draw) {
	p.t.Helper()
	p.listen(channel)
	for seed := range uint64(*sequences) {
		p.do("DEL", "m", "{m}:timeout")
		m := &model{random: rand.New(rand.NewPCG(seed, 42)), taken: make(map[string]ending)}
		for range callsOfASequence {
			d := next(m)
			m.log = append(m.log, d.what)
			result, err := d.call()
			require.NoError(p.t, err, "seed %d: %s", seed, strings.Join(m.log, "\n"))
			want := d.model(m)
			m.log = append(m.log, "    "+want+", then "+m.state())
			require.Equal(p.t, want, fmt.Sprint(result), "seed %d: the result of the last of\n%s", seed, strings.Join(m.log, "\n"))
			require.Equal(p.t, m.state(), p.state(), "seed %d: the keys after\n%s", seed, strings.Join(m.log, "\n"))
		}
		require.Equal(p.t, m.told, append([]string(nil), p.messages(channel)...), "seed %d: the messages of\n%s", seed, strings.Join(m.log, "\n"))
	}
}

// state is the model as text, in the form of program.state.
func (m *model) state() string {
	number, ends := "absent", 0
	if m.present {
		number = strconv.FormatInt(m.n, 10)
	}
	for _, end := range m.taken {
		if end == never {
			ends++
		}
	}
	return fmt.Sprintf("%s (expires %v), %d taken, %d of them for ever (expires %v)", number, m.expires, len(m.taken), ends, m.together)
}

func (p *program) state() string {
	members := p.do("ZCARD", "{m}:timeout")
	ends := p.do("ZCOUNT", "{m}:timeout", "922337203685477", "922337203685477")
	return fmt.Sprintf("%s (expires %v), %s taken, %s of them for ever (expires %v)",
		p.do("GET", "m"), p.do("PTTL", "m")[0] != '-', members, ends, p.do("PTTL", "{m}:timeout")[0] != '-')
}

// add changes the number as INCRBY does.
func (m *model) add(n int64) {
	m.present, m.n = true, m.n+n
}

// tell publishes the number, if it is above 0.
func (m *model) tell() {
	if m.present && m.n > 0 {
		m.told = append(m.told, strconv.FormatInt(m.n, 10))
	}
}

// drop removes the number.
func (m *model) drop() { m.present, m.n, m.expires = false, 0, false }

// sweep takes the permits back that have ended.
func (m *model) sweep() {
	swept := m.remove(func(_ string, end ending) bool { return end == ended })
	if swept > 0 {
		m.add(swept)
		m.tell()
	}
}

func (m *model) remove(which func(id string, end ending) bool) (n int64) {
	n = int64(len(m.taken))
	maps.DeleteFunc(m.taken, which)
	m.together = m.together && len(m.taken) > 0
	return n - int64(len(m.taken))
}

func (m *model) set(n int64) string {
	if m.present {
		return "false"
	}
	m.present, m.n = true, n
	m.tell()
	return "true"
}

// some returns a small number, or one at the limits of what the keys are for.
func (m *model) some() int {
	return []int{0, 1, 1, 2, 3, 5, 1<<31 - 1}[m.random.IntN(7)]
}

// id returns that of a permit which is taken, or an unknown one.
func (m *model) id() string {
	ids := slices.Sorted(maps.Keys(m.taken))
	if len(ids) == 0 || m.random.IntN(5) == 0 {
		return strings.Repeat("ab", 16)
	}
	return ids[m.random.IntN(len(ids))]
}

// outside returns what another program may do to the number.
func (m *model) outside(p *program) draw {
	switch n := int64(m.random.IntN(7)) - 3; m.random.IntN(3) {
	case 0:
		return draw{"DEL", func(m *model) string { m.drop(); return "done" }, func() (any, error) { p.do("DEL", "m"); return "done", nil }}
	case 1:
		return draw{fmt.Sprint("SET ", n), func(m *model) string { m.drop(); m.add(n); return "done" }, func() (any, error) {
			p.do("SET", "m", strconv.FormatInt(n, 10))
			return "done", nil
		}}
	default:
		return draw{"PEXPIRE", func(m *model) string { m.expires = m.present; return "done" }, func() (any, error) {
			p.do("PEXPIRE", "m", "3600000")
			return "done", nil
		}}
	}
}

func drawSemaphore(ctx context.Context, m *model, p *program, s *redisson.Semaphore) draw {
	n := m.some()
	switch m.random.IntN(12) {
	case 9:
		return draw{fmt.Sprint("ReleaseIfExists ", n), func(m *model) string {
			was := m.present && n > 0
			if was {
				m.add(int64(n))
				m.tell()
			}
			return fmt.Sprint(was)
		}, func() (any, error) { return s.ReleaseIfExists(ctx, n) }}
	case 10:
		return m.deletes(ctx, s.Delete)
	case 11:
		return m.expire(ctx, s.Expire)
	case 0, 1, 2:
		return draw{fmt.Sprint("TryAcquire ", n), func(m *model) string {
			got := n == 0 || m.present && m.n >= int64(n)
			if got && n > 0 {
				m.n -= int64(n)
			}
			return fmt.Sprint(got)
		}, func() (any, error) { return s.TryAcquire(ctx, n, 0) }}
	case 3, 4:
		return draw{fmt.Sprint("Release ", n), func(m *model) string {
			if n > 0 {
				m.add(int64(n))
				m.tell()
			}
			return "done"
		}, func() (any, error) { return "done", s.Release(ctx, n) }}
	case 5:
		return m.addPermits(ctx, s.AddPermits)
	case 6:
		return draw{"DrainPermits", func(m *model) string {
			took := max(m.n, 0)
			m.n -= took
			return fmt.Sprint(took)
		}, func() (any, error) { return s.DrainPermits(ctx) }}
	case 7:
		return draw{fmt.Sprint("TrySetPermits ", n), func(m *model) string { return m.set(int64(n)) }, func() (any, error) { return s.TrySetPermits(ctx, n) }}
	default:
		if m.random.IntN(2) == 0 {
			return draw{"AvailablePermits", func(m *model) string { return fmt.Sprint(m.n) }, func() (any, error) { return s.AvailablePermits(ctx) }}
		}
		return m.outside(p)
	}
}

func (m *model) addPermits(ctx context.Context, add func(context.Context, int) error) draw {
	n := m.some() - 2
	return draw{fmt.Sprint("AddPermits ", n), func(m *model) string {
		m.add(int64(n))
		m.tell()
		return "done"
	}, func() (any, error) { return "done", add(ctx, n) }}
}

func drawPermits(ctx context.Context, m *model, p *program, s *redisson.PermitSemaphore) draw {
	id := m.id()
	until, lease := later, time.Hour
	if m.random.IntN(3) == 0 {
		until, lease = never, 0
	}
	switch m.random.IntN(16) {
	case 12:
		return m.deletes(ctx, s.Delete)
	case 13:
		return m.expire(ctx, s.Expire)
	case 14:
		return draw{"Lease " + id, func(m *model) string {
			m.sweep()
			end, held := m.taken[id]
			return fmt.Sprint(held, end == never)
		}, func() (any, error) {
			lease, err := s.Lease(ctx, id)
			if errors.Is(err, rlock.ErrNotHeld) {
				return "false false", nil
			}
			return fmt.Sprint(true, lease == rlock.NoExpiry), err
		}}
	case 15:
		other := m.id()
		return draw{fmt.Sprint("ReleaseAll ", id, " ", other), func(m *model) string {
			held := 0
			for i, end := range []ending{m.taken[id], m.taken[other]} {
				if end != ended && (i == 0 || id != other) {
					held++
				}
			}
			if back := m.remove(func(one string, _ ending) bool { return one == id || one == other }); back > 0 {
				m.add(back)
				m.tell()
			}
			return fmt.Sprint(held)
		}, func() (any, error) { return s.ReleaseAll(ctx, id, other) }}
	case 0, 1, 2, 3:
		return m.acquirePermit(ctx, s)
	case 4, 5:
		return draw{"Release " + id, func(m *model) string {
			end := m.taken[id]
			if m.remove(func(one string, _ ending) bool { return one == id }) > 0 {
				m.add(1)
				m.tell()
			}
			return fmt.Sprint(end != ended)
		}, func() (any, error) { return s.Release(ctx, id) }}
	case 6:
		return draw{fmt.Sprint("UpdateLease ", id, " ", lease), func(m *model) string {
			m.sweep()
			_, held := m.taken[id]
			if held {
				m.taken[id] = until
			}
			return fmt.Sprint(held)
		}, func() (any, error) { return s.UpdateLease(ctx, id, lease) }}
	case 7:
		return draw{"the lease ends of " + id, func(m *model) string {
			if _, held := m.taken[id]; held {
				m.taken[id] = ended
			}
			return "done"
		}, func() (any, error) {
			raw, err := hex.DecodeString(id)
			p.do("ZADD", "{m}:timeout", "XX", strconv.Itoa(m.random.IntN(2)), string(raw))
			return "done", err
		}}
	case 8:
		return m.addPermits(ctx, s.AddPermits)
	case 9:
		n := m.some()
		if m.random.IntN(2) == 0 {
			return draw{fmt.Sprint("TrySetPermits ", n), func(m *model) string { return m.set(int64(n)) }, func() (any, error) { return s.TrySetPermits(ctx, n) }}
		}
		return draw{fmt.Sprint("SetPermits ", n), func(m *model) string {
			m.sweep()
			free, had, was := int64(n-len(m.taken)), m.present, m.n
			m.present, m.n = true, free
			if !had || was < free {
				m.tell()
			}
			return "done"
		}, func() (any, error) { return "done", s.SetPermits(ctx, n) }}
	case 10:
		return draw{"counts", func(m *model) string {
			m.sweep()
			return fmt.Sprint([]int64{m.n, int64(len(m.taken)), m.n + int64(len(m.taken))})
		}, func() (any, error) {
			all, err := s.Permits(ctx)
			if err != nil {
				return nil, err
			}
			free, err := s.AvailablePermits(ctx)
			if err != nil {
				return nil, err
			}
			taken, err := s.AcquiredPermits(ctx)
			return []int{free, taken, all}, err
		}}
	default:
		return m.outside(p)
	}
}

// acquirePermit may take permits. The watchdog does not keep them: that would sweep at times of its
// own.
func (m *model) acquirePermit(ctx context.Context, s *redisson.PermitSemaphore) draw {
	var got []*redisson.Permit
	n := 1 + m.random.IntN(4)/2
	return draw{fmt.Sprint("TryAcquireN ", n), func(m *model) string {
		m.sweep()
		if !m.present || m.n < int64(n) {
			return "0"
		}
		m.n -= int64(n)
		for _, one := range got {
			m.taken[one.ID()] = later
		}
		m.together = m.together || m.expires
		return strconv.Itoa(n)
	}, func() (_ any, err error) {
		got, err = s.TryAcquireN(ctx, n, 0, time.Hour)
		return len(got), err
	}}
}

// deletes draws the deletion of the keys.
func (m *model) deletes(ctx context.Context, call func(context.Context) (bool, error)) draw {
	return draw{"Delete", func(m *model) string {
		had := m.present || len(m.taken) > 0
		m.drop()
		m.taken, m.together = make(map[string]ending), false
		return fmt.Sprint(had)
	}, func() (any, error) { return call(ctx) }}
}

// expire draws an end of the keys, or that it is taken away.
func (m *model) expire(ctx context.Context, call func(context.Context, time.Duration) (bool, error)) draw {
	after := time.Duration(m.random.IntN(2)) * time.Hour
	return draw{fmt.Sprint("Expire ", after), func(m *model) string {
		had := m.present || len(m.taken) > 0
		m.expires, m.together = m.present && after > 0, len(m.taken) > 0 && after > 0
		return fmt.Sprint(had)
	}, func() (any, error) { return call(ctx, after) }}
}

func drawLatch(ctx context.Context, m *model, p *program, l *redisson.CountDownLatch) draw {
	n := int64(m.random.IntN(3) + 1)
	switch m.random.IntN(8) {
	case 0, 1:
		return draw{fmt.Sprint("TrySetCount ", n), func(m *model) string {
			if m.present {
				return "false"
			}
			m.add(n)
			m.told = append(m.told, "1")
			return "true"
		}, func() (any, error) { return l.TrySetCount(ctx, n) }}
	case 2, 3, 4:
		return draw{"CountDown", func(m *model) string {
			if !m.present {
				return "done"
			}
			if m.n--; m.n == 0 {
				m.told = append(m.told, "0")
			}
			if m.n <= 0 {
				m.drop()
			}
			return "done"
		}, func() (any, error) { return "done", l.CountDown(ctx) }}
	case 5:
		return draw{"Count", func(m *model) string { return fmt.Sprint(m.n) }, func() (any, error) { return l.Count(ctx) }}
	case 6:
		return draw{"Delete", func(m *model) string {
			had := m.present
			if m.drop(); had {
				m.told = append(m.told, "1")
			}
			return fmt.Sprint(had)
		}, func() (any, error) { return l.Delete(ctx) }}
	default:
		return m.outside(p)
	}
}
