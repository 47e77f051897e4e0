package deadlock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/cmd/rlock/internal/deadlock"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

var tenures int

// owner returns the text of an owner in a tenure of its own: a client and a number.
func owner(client rune, number int) string {
	tenures++
	return fmt.Sprintf("%[1]c%[1]c%[1]c%[1]c%[1]c%[1]c%[1]c%[1]c-0000-8000-8000-%012d:%[3]d", client, tenures, number)
}

func lock(name, holder string, waiters ...string) inspect.Lock {
	i := inspect.Lock{Name: name, Kind: inspect.KindLock, Holders: []inspect.Holder{{Owner: holder}}}
	for _, w := range waiters {
		i.Queue = append(i.Queue, inspect.Waiter{Owner: w})
	}
	return i
}

// seen is the state of the locks in Redis, without answers of clients.
func seen(locks ...inspect.Lock) deadlock.View { return deadlock.View{Locks: locks} }

// answer is the answer of a client, with an age of two seconds for all uses.
func answer(client rune, uses ...inspect.Use) inspect.Answer {
	a := inspect.Answer{Client: owner(client, 0)[:19], At: time.UnixMilli(1_700_000_002_000), Uses: uses}
	for i := range a.Uses {
		a.Uses[i].Since = a.At.Add(-2 * time.Second)
	}
	return a
}

func names(cycles []deadlock.Cycle) (all [][]string) {
	for _, cycle := range cycles {
		var one []string
		for _, w := range cycle {
			one = append(one, w.Lock)
		}
		all = append(all, one)
	}
	return all
}

func TestTwoOwnersThatWaitForEachOtherAreACycle(t *testing.T) {
	cycles := deadlock.Find(seen(
		lock("stock", owner('b', 1), owner('a', 7)),
		lock("orders", owner('a', 7), owner('b', 1)),
	))
	require.Equal(t, [][]string{{"orders", "stock"}}, names(cycles))
	assert.Contains(t, cycles[0][0].Waiter.Owner, "bbbb")
	assert.Contains(t, cycles[0][0].Holder.Owner, "aaaa")
}

func TestACycleOfThreeProcessesIsFoundAmongFiveLocks(t *testing.T) {
	locks := []inspect.Lock{
		lock("1", owner('a', 1), owner('x', 5), owner('c', 1)),
		lock("2", owner('b', 1), owner('a', 1)),
		lock("3", owner('c', 1), owner('b', 1), owner('y', 9)),
		lock("4", owner('d', 1), owner('x', 6)),
		lock("5", owner('a', 1)),
	}
	assert.Equal(t, [][]string{{"1", "2", "3"}}, names(deadlock.Find(seen(locks...))))
	assert.Equal(t, []string{"1", "2", "3"}, deadlock.Locks(deadlock.Find(seen(locks...))))
}

func TestOwnersOfOneClientAreNotTakenForEachOther(t *testing.T) {
	assert.Empty(t, deadlock.Find(seen(
		lock("orders", owner('a', 7), owner('b', 1)),
		lock("stock", owner('b', 2), owner('a', 7)),
	)))
}

func TestAChainIsNoCycle(t *testing.T) {
	assert.Empty(t, deadlock.Find(seen(
		lock("1", owner('a', 1), owner('b', 1)),
		lock("2", owner('b', 1), owner('c', 1), owner('d', 1)),
		lock("3", owner('c', 1), owner('e', 1)),
	)))
	assert.Empty(t, deadlock.Find(seen()))
}

func TestAWriterWaitsForEveryReaderAndAReaderForNone(t *testing.T) {
	catalogue := inspect.Lock{Name: "catalogue", Kind: inspect.KindReadWrite,
		Holders: []inspect.Holder{{Owner: owner('a', 1), Shared: true}, {Owner: owner('b', 1), Shared: true}},
		Queue:   []inspect.Waiter{{Owner: owner('c', 1)}, {Owner: owner('d', 1), Shared: true}},
	}
	assert.Equal(t, [][]string{{"catalogue", "orders"}}, names(deadlock.Find(seen(catalogue, lock("orders", owner('c', 1), owner('b', 1))))))
	assert.Empty(t, deadlock.Find(seen(catalogue, lock("orders", owner('d', 1), owner('b', 1)))))
}

func TestSemaphoresAndTurnsOfGuestsAreLeftOut(t *testing.T) {
	permits := lock("permits", owner('a', 1), owner('b', 1))
	permits.Kind = rlock.KindSemaphore
	other := lock("orders", owner('b', 1), owner('a', 1))
	assert.Empty(t, deadlock.Find(seen(permits, other)))
	guests := lock("stock", "", "")
	guests.Queue[0].Foreign = true
	assert.Empty(t, deadlock.Find(seen(guests)))
}

func TestACycleCountsIfItIsSeenTwiceWithTheSameTenures(t *testing.T) {
	a, b, a2, b2 := owner('a', 1), owner('b', 1), owner('a', 1), owner('b', 1)
	first := deadlock.Find(seen(lock("1", a, b2), lock("2", b, a2)))
	require.Len(t, first, 1)
	assert.Equal(t, first, deadlock.Still(first, first))
	changed := deadlock.Find(seen(lock("1", owner('a', 1), b2), lock("2", b, a2)))
	require.Len(t, changed, 1)
	assert.Empty(t, deadlock.Still(first, changed))
}
