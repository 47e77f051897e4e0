package wire_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Several locks in one call are acquired as one after the other, up to the first that is refused.
func TestOneCallAcquiresSeveralLocksAsOneAfterTheOther(t *testing.T) {
	id := wire.NewID()
	mine, theirs := id.Owner(1), id.Owner(2)
	kinds := map[string]struct {
		kind *wire.Kind
		cmd  core.Command
		hold func(k *wire.Keys, owner string) []string
	}{
		"plain": {wire.Plain, core.Command{}, func(k *wire.Keys, owner string) []string { return []string{"HSET", k.Key, owner, "1"} }},
		"fenced": {wire.Fenced, core.Command{Tokens: 3}, func(k *wire.Keys, owner string) []string {
			return []string{"HSET", k.Key, owner, "1"}
		}},
		"write": {wire.ReadWrite, core.Command{}, func(k *wire.Keys, owner string) []string {
			return []string{"HSET", k.Key, "mode", "write", owner + ":write", "1"}
		}},
		"semaphore": {wire.Semaphore, core.Command{Permits: 1}, func(k *wire.Keys, owner string) []string {
			return []string{"ZADD", k.Key, "99999999999999", owner}
		}},
	}
	redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone}, func(t *testing.T, s *redistest.Server) {
		redis := openAt(t, s)
		do := func(args ...string) string {
			m, _ := do(t, redis, args...).ToMessage()
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
							k := keysOf(t, redis, fmt.Sprintf("{%s}%d.%d.%d", name, seed, set, i), kind.kind.Layout)
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
					acquire := func(k *wire.Keys) *wire.Exchange {
						x := &wire.Exchange{Cmd: kind.cmd, Kind: kind.kind, Keys: k, Text: mine}
						x.Cmd.Op, x.Cmd.Lease = core.Acquire, core.Span(30*time.Second)
						return x
					}
					text := func(a wire.Answer) string {
						a.TTL = min(a.TTL, 1)
						return fmt.Sprint(a.Found, a.Owner, a.TTL, a.Token, a.Err != nil)
					}
					var all []*wire.Exchange
					var want, got []string
					refused := false
					for i := range sets[0] {
						all = append(all, acquire(&sets[0][i]))
						if refused {
							continue
						}
						answer := carry(t, redis, acquire(&sets[1][i]))
						refused = answer.Found != core.Holds
						want = append(want, text(answer))
					}
					result := redis.Do(t.Context(), redis.CallOf(all...))
					redis.ReadAll(all, result)
					if result.Error() != nil && len(all) > 1 { // of a command of the last one that was asked for
						got = append(got, want[:len(want)-1]...)
						got = append(got, text(all[0].Answer))
					} else {
						for i, x := range all {
							if i < len(want) {
								got = append(got, text(x.Answer))
							} else {
								assert.Equal(t, core.NotRun, x.Answer.Fault, "seed %d: it is not asked for", seed)
							}
						}
					}
					require.Equal(t, want, got, "seed %d", seed)
					for i := range sets[0] {
						a, b := &sets[0][i], &sets[1][i]
						here := []string{do("HGETALL", a.Key), do("ZRANGE", a.Key, "0", "-1"), do("GET", a.Key), do("GET", "redisson_lock_token:"+a.Key)}
						there := []string{do("HGETALL", b.Key), do("ZRANGE", b.Key, "0", "-1"), do("GET", b.Key), do("GET", "redisson_lock_token:"+b.Key)}
						assert.Equal(t, there, here, "seed %d: lock %d", seed, i)
					}
				}
			})
		}
	})
}
