package waitgraph_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/waitgraph"
)

type use = waitgraph.Use[string]

func holds(lock string, who ...string) use {
	u := use{Lock: lock}
	copy(u.Names[:], who)
	return u
}

func waits(lock string, who ...string) use {
	u := holds(lock, who...)
	u.Waits = true
	return u
}

func reads(u use) use {
	u.Shared = true
	return u
}

// locks returns the locks of each cycle.
func locks(uses ...use) (all [][]string) {
	for _, cycle := range waitgraph.Cycles(uses) {
		var one []string
		for _, w := range cycle {
			one = append(one, uses[w.Waiter].Lock)
		}
		all = append(all, one)
	}
	return all
}

func ExampleCycles() {
	uses := []waitgraph.Use[string]{
		{Lock: "orders", Names: [2]string{"anna"}},
		{Lock: "stock", Names: [2]string{"bert"}},
		{Lock: "stock", Names: [2]string{"anna"}, Waits: true},
		{Lock: "orders", Names: [2]string{"bert"}, Waits: true},
	}
	for _, wait := range waitgraph.Cycles(uses)[0] {
		fmt.Printf("%s waits for %s, which %s holds\n", uses[wait.Waiter].Names[0], uses[wait.Waiter].Lock, uses[wait.Holder].Names[0])
	}
	// Output:
	// anna waits for stock, which bert holds
	// bert waits for orders, which anna holds
}

func TestOwnersThatWaitForEachOtherAreACycle(t *testing.T) {
	assert.Equal(t, [][]string{{"1", "2", "3"}}, locks(
		waits("1", "c"), waits("2", "a"), waits("3", "b"), // others wait behind them:
		waits("1", "x"), waits("3", "y"), waits("4", "z"),
		holds("1", "a"), holds("2", "b"), holds("3", "c"), holds("4", "d"), holds("5", "a"),
	))
}

func TestAChainIsNoCycle(t *testing.T) {
	assert.Empty(t, locks(
		holds("1", "a"), holds("2", "b"), holds("3", "c"),
		waits("1", "b"), waits("2", "c"), waits("2", "d"), waits("3", "e"),
	))
	assert.Empty(t, locks())
}

func TestAWaitForALockOfTheSameUserIsACycle(t *testing.T) {
	assert.Equal(t, [][]string{{"1"}}, locks(holds("1", "handle", "goroutine"), waits("1", "goroutine")))
	assert.Empty(t, locks(holds("1", "handle", "goroutine"), waits("1", "another")))
}

func TestUsesWithACommonNameHaveTheSameUser(t *testing.T) {
	assert.Equal(t, [][]string{{"2", "1"}}, locks(
		holds("1", "handle 1", "goroutine 1"), waits("2", "handle 2", "goroutine 1"),
		holds("2", "handle 3", "goroutine 2"), waits("1", "handle 4", "goroutine 2"),
	))
	assert.Empty(t, locks(
		holds("1", "handle 1"), waits("2", "handle 2"), // the goroutine is unknown
		holds("2", "handle 3"), waits("1", "handle 4"),
	))
}

func TestReadersWaitForWritersAlone(t *testing.T) {
	assert.Empty(t, locks(reads(holds("1", "a")), holds("2", "b"), reads(waits("1", "b")), waits("2", "a")))
	assert.NotEmpty(t, locks(holds("1", "a"), holds("2", "b"), reads(waits("1", "b")), waits("2", "a")))
	assert.Equal(t, [][]string{{"1", "2"}}, locks(waits("1", "b"), waits("2", "c"), reads(holds("1", "a")), reads(holds("1", "c")), holds("2", "b")), "a writer waits for every reader")
}

func TestTwoCyclesAreFound(t *testing.T) {
	assert.Len(t, locks(
		holds("1", "a"), holds("2", "b"), waits("1", "b"), waits("2", "a"),
		holds("3", "c"), holds("4", "d"), waits("3", "d"), waits("4", "c"),
	), 2)
}

// The result is compared with an exhaustive search: there is a cycle if some owner is
// reachable from itself.
func TestACycleIsFoundWhereverThereIsOne(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	with := 0
	for range 3000 {
		const parties, names = 6, 6
		var uses []use
		reaches := [parties][parties]bool{}
		var holder [names]int
		for lock := range names {
			holder[lock] = random.IntN(parties)
			uses = append(uses, holds(fmt.Sprint(lock), fmt.Sprint(holder[lock])))
		}
		for range random.IntN(8) {
			lock, who := random.IntN(names), random.IntN(parties)
			uses = append(uses, waits(fmt.Sprint(lock), fmt.Sprint(who)))
			reaches[who][holder[lock]] = true
		}
		for via := range parties {
			for from := range parties {
				for to := range parties {
					reaches[from][to] = reaches[from][to] || reaches[from][via] && reaches[via][to]
				}
			}
		}
		there := false
		for who := range parties {
			there = there || reaches[who][who]
		}
		cycles := waitgraph.Cycles(uses)
		require.Equal(t, there, len(cycles) > 0, "%v", uses)
		for _, cycle := range cycles {
			for at, wait := range cycle {
				require.Equal(t, uses[wait.Waiter].Lock, uses[wait.Holder].Lock)
				require.Equal(t, uses[wait.Holder].Names, uses[cycle[(at+1)%len(cycle)].Waiter].Names)
			}
		}
		if there {
			with++
		}
	}
	assert.Greater(t, with, 500, "too few graphs with a cycle")
}

// Many wait for a lock of many holders, each of which waits behind others. A search whose time was the product would not
// end before the time of the tests does.
func TestManyMayWaitForManyHolders(t *testing.T) {
	const many = 50_000
	var uses []use
	for i := range many {
		uses = append(uses,
			reads(holds("1", fmt.Sprint("reader", i))), waits("1", fmt.Sprint("writer", i)),
			waits("2", fmt.Sprint("reader", i)), holds("3", fmt.Sprint("writer", i)))
	}
	uses = append(uses, holds("2", "last"))
	assert.Empty(t, locks(uses...))
	uses = append(uses, waits("3", "last"))
	assert.NotEmpty(t, locks(uses...))
}

func TestACycleIsFoundOnceThoughItsUsersHaveTwoNames(t *testing.T) {
	assert.Equal(t, [][]string{{"2", "1"}}, locks(
		holds("1", "a", "first"), waits("2", "a", "first"), holds("2", "b", "second"), waits("1", "b", "second")))
}
