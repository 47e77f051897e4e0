package deadlock_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/cmd/rlock/internal/deadlock"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

func holds(name string, goroutine uint64) inspect.Use {
	return inspect.Use{Name: name, Kind: rlock.KindPlain, Goroutine: goroutine, Owner: uint64(rlock.NewOwner())}
}

func waits(name string, goroutine uint64) inspect.Use {
	u := holds(name, goroutine)
	u.Waits = true
	return u
}

// The second in the line of its client has no ticket.
func TestAWaiterThatRedisDoesNotShowIsInACycle(t *testing.T) {
	v := seen(lock("1", owner('a', 1), owner('b', 5)), lock("2", owner('b', 3), owner('a', 1)))
	require.Empty(t, deadlock.Find(v), "the ticket belongs to another owner")
	v.Answers = []inspect.Answer{answer('b', waits("1", 5), waits("1", 3), holds("2", 3))}
	cycles := deadlock.Find(v)
	require.Equal(t, [][]string{{"1", "2"}}, names(cycles))
	assert.Equal(t, 2*time.Second, cycles[0][0].Waiter.Age)
	assert.EqualValues(t, 3, cycles[0][0].Waiter.Goroutine)
	assert.Zero(t, cycles[0][0].Holder.Age, "the client has not answered")
	assert.Equal(t, cycles, deadlock.Still(cycles, deadlock.Find(v)))

	v.Answers[0].Uses[1].Since = v.Answers[0].Uses[1].Since.Add(time.Millisecond)
	assert.Empty(t, deadlock.Still(cycles, deadlock.Find(v)), "the wait is another one")
}

// In Redis the readers of a client are one.
func TestAReaderThatRedisDoesNotShowIsInACycle(t *testing.T) {
	catalogue := inspect.Lock{Name: "catalogue", Kind: inspect.KindReadWrite,
		Holders: []inspect.Holder{{Owner: owner('a', 1), Shared: true}}, Queue: []inspect.Waiter{{Owner: owner('b', 1)}}}
	v := seen(catalogue, lock("orders", owner('b', 1), owner('a', 9)))
	require.Empty(t, deadlock.Find(v))
	one, two := holds("catalogue", 1), holds("catalogue", 9)
	one.Kind, two.Kind = rlock.KindRead, rlock.KindRead
	v.Answers = []inspect.Answer{answer('a', waits("orders", 9), one, two)}
	assert.Equal(t, [][]string{{"catalogue", "orders"}}, names(deadlock.Find(v)))
}

func TestTheAnswerOfAClientOverridesWhatRedisShowsOfIt(t *testing.T) {
	v := seen(lock("1", owner('a', 1), owner('b', 1)), lock("2", owner('b', 1), owner('a', 1)))
	require.Len(t, deadlock.Find(v), 1)
	v.Answers = []inspect.Answer{answer('b', waits("1", 1))}
	assert.Empty(t, deadlock.Find(v), "in its client the tenure of 2 lingers, without an owner")

	v.Answers = []inspect.Answer{answer('c', holds("1", 1), waits("2", 1))}
	require.Len(t, deadlock.Find(v), 1, "no client claims the lock of a tenure that Redis shows for another")
}

// For uses that did not fit into an answer, Redis counts.
func TestAnIncompleteAnswerHidesNothingThatRedisShows(t *testing.T) {
	mine := uint64(rlock.NewOwner())
	ticket := owner('b', 0)[:37] + strconv.FormatUint(mine, 10)
	v := seen(lock("1", owner('a', 1), ticket), lock("2", ticket, owner('a', 1)))
	require.Len(t, deadlock.Find(v), 1)
	use := waits("1", 0)
	use.Owner = mine
	v.Answers = []inspect.Answer{answer('b', use)}
	v.Answers[0].Cut = true
	cycles := deadlock.Find(v)
	require.Len(t, cycles, 1, "the wait is found once, though both show it")
	assert.Equal(t, ticket, cycles[0][0].Waiter.Owner)
	v.Answers[0].Cut = false
	assert.Empty(t, deadlock.Find(v))
}
