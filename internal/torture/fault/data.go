package fault

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/torture/stage"
)

func ofData() []Kind {
	return []Kind{
		{Name: "flushall", Where: everywhere, Forgets: true, Once: true, Choose: func(*rand.Rand, Scene) *Fault {
			return makeFault("FLUSHALL", func(s *stage.Stage) error { return s.OnPrimaries("FLUSHALL") }, nothing)
		}},
		{Name: "del", Where: everywhere, Forgets: true, Once: true, Choose: func(random *rand.Rand, scene Scene) *Fault {
			name := scene.name(random)
			f := makeFault("DEL "+name, func(s *stage.Stage) error { return s.OnPrimaries("DEL", name) }, nothing)
			f.Lock = name
			return f
		}},
		{Name: "evict", Where: everywhere, Forgets: true, Choose: func(*rand.Rand, Scene) *Fault {
			e := new(evict)
			return makeFault("maxmemory with eviction", e.inject, e.heal)
		}},
	}
}

// evict fills the memory of the primaries beyond their limit, with keys of the kind of the
// locks, any of which Redis may drop.
type evict struct {
	loop *loop
	made atomic.Int64
}

const (
	ballast      = "ballast:" // prefix of the keys
	ballastKeys  = 200
	ballastBytes = 10_000
)

func (f *evict) inject(s *stage.Stage) error {
	if err := s.AllAnswer(); err != nil {
		return err // each key would wait for the nodes that do not answer
	}
	for range ballastKeys {
		if err := f.fill(s); err != nil {
			return err
		}
	}
	failed := s.Everywhere("CONFIG", "SET", "maxmemory-policy", "volatile-random")
	for _, node := range s.Primaries() {
		used, err := usedMemory(s, node)
		if err == nil {
			err = s.Do(node, "CONFIG", "SET", "maxmemory", strconv.FormatInt(used, 10)).Error()
		}
		failed = errors.Join(failed, err)
	}
	f.loop = every(5*time.Millisecond, func() { _ = f.fill(s) })
	return failed
}

// fill adds a key, in a Cluster at the primary that serves it.
func (f *evict) fill(s *stage.Stage) error {
	key := ballast + strconv.FormatInt(f.made.Add(1)%(2*ballastKeys), 10)
	return s.OnPrimaries("SET", key, strings.Repeat("x", ballastBytes), "EX", "100")
}

func (f *evict) heal(s *stage.Stage) error {
	f.loop.end()
	err := errors.Join(
		s.Everywhere("CONFIG", "SET", "maxmemory", "0"),
		s.Everywhere("CONFIG", "SET", "maxmemory-policy", "noeviction"))
	if err != nil {
		return err
	}
	keys, err := s.Keys()
	if err != nil {
		return err
	}
	for key := range keys {
		if strings.HasPrefix(key, ballast) {
			err = errors.Join(err, s.OnPrimaries("DEL", key))
		}
	}
	return err
}

// usedMemory asks a node for the memory that counts against maxmemory.
func usedMemory(s *stage.Stage, node int) (int64, error) {
	info, err := s.Do(node, "INFO", "memory").ToString()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if figure, ok := strings.CutPrefix(line, "used_memory:"); ok {
			return strconv.ParseInt(strings.TrimSpace(figure), 10, 64)
		}
	}
	return 0, fmt.Errorf("fault: INFO memory has no used_memory:\n%s", info)
}
