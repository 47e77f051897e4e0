package wire_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Several locks in one call are acquired as one after the other, up to the first that is refused.
func TestOneCallAcquiresSeveralLocksAsOneAfterTheOther(t *testing.T) {
	id := wire.NewID()
	mine, theirs := id.Owner(1), id.Owner(2)
	kinds := map[string]struct {
		layout  int
		all     *wire.Script
		acquire func(k *wire.Keys) wire.Call
		hold    func(k *wire.Keys, owner string) []string
	}{
		"plain": {0, wire.AcquireAll, func(k *wire.Keys) wire.Call {
			return wire.Acquire.Call(2, k.Key, k.Queue(), "30000", mine)
		}, func(k *wire.Keys, owner string) []string { return []string{"HSET", k.Key, owner, "1"} }},
		"fenced": {1, wire.AcquireAll, func(k *wire.Keys) wire.Call {
			return wire.Acquire.Call(3, k.Key, k.Queue(), k.Extra(), "30000", mine, "3")
		}, func(k *wire.Keys, owner string) []string { return []string{"HSET", k.Key, owner, "1"} }},
		"write": {2, wire.ReadWriteAcquireAll, func(k *wire.Keys) wire.Call {
			return wire.ReadWriteAcquire.Call(4, k.Key, k.Queue(), k.Extra(), k.Extra()+":"+mine+":rwlock_timeout:1", "30000", mine, "write")
		}, func(k *wire.Keys, owner string) []string {
			return []string{"HSET", k.Key, "mode", "write", owner + ":write", "1"}
		}},
		"semaphore": {3, wire.SemaphoreAcquireAll, func(k *wire.Keys) wire.Call {
			return wire.SemaphoreAcquire.Call(2, k.Key, k.Queue(), "30000", mine, "1")
		}, func(k *wire.Keys, owner string) []string { return []string{"ZADD", k.Key, "99999999999999", owner} }},
	}
	redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone}, func(t *testing.T, s *redistest.Server) {
		redis := openAt(t, s)
		do := func(args ...string) string {
			m, _ := redis.Client.Do(t.Context(), redis.Client.B().Arbitrary(args...).Build()).ToMessage()
			return m.String()
		}
		for name, kind := range kinds {
			t.Run(name, func(t *testing.T) {
				for seed := range uint64(100) {
					random := rand.New(rand.NewPCG(seed, 0))
					var sets [2][]wire.Keys
					for i := range 1 + random.IntN(5) {
						state := random.IntN(8) // most are free
						for set := range sets {
							k, err := redis.KeysOf(fmt.Sprintf("{%s}%d.%d.%d", name, seed, set, i), layouts[kind.layout], "")
							require.NoError(t, err)
							sets[set] = append(sets[set], k)
							switch state {
							case 0:
								do(kind.hold(&k, theirs)...)
							case 1:
								do(kind.hold(&k, mine)...)
							case 2:
								do("ZADD", k.Queue(), "1", "x"+theirs)
							case 3:
								do("SET", k.Key, "something else")
							}
						}
					}
					var acquires []wire.Call
					var want, got []string
					refused := false
					for i := range sets[0] {
						acquires = append(acquires, kind.acquire(&sets[0][i]))
						if refused {
							continue
						}
						result := redis.Do(t.Context(), kind.acquire(&sets[1][i]))
						answer, err := wire.ReadAcquire(result, tokensOf(name))
						answer.TTL = min(answer.TTL, 1)
						refused = !answer.Granted
						want = append(want, fmt.Sprint(answer, err != nil))
					}
					replies, err := wire.EachAcquire(redis.Do(t.Context(), kind.all.Together(acquires)), len(acquires))
					if err != nil { // of a command of the last one that was asked for
						got = append(got, want[:len(want)-1]...)
						got = append(got, fmt.Sprint(wire.Answer{Window: -1}, true))
					}
					for _, r := range replies {
						answer, err := wire.ReadAcquire(r, tokensOf(name))
						answer.TTL = min(answer.TTL, 1)
						got = append(got, fmt.Sprint(answer, err != nil))
					}
					require.Equal(t, want, got, "seed %d", seed)
					for i := range sets[0] {
						a, b := &sets[0][i], &sets[1][i]
						for _, read := range []string{"HGETALL", "ZRANGE", "GET"} {
							args := map[string][]string{"HGETALL": nil, "ZRANGE": {"0", "-1"}, "GET": nil}[read]
							here := do(append([]string{read, a.Key}, args...)...)
							there := do(append([]string{read, b.Key}, args...)...)
							assert.Equal(t, there, here, "seed %d: %s of lock %d", seed, read, i)
						}
						if strings.Contains(name, "fenced") {
							assert.Equal(t, do("GET", b.Extra()), do("GET", a.Extra()), "seed %d", seed)
						}
					}
				}
			})
		}
	})
}

func tokensOf(kind string) uint64 {
	if kind == "fenced" {
		return 3
	}
	return 0
}
