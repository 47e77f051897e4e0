package driver

import (
	"context"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The rules of the driver, which tests with the build tag "invariants" assert each time before the
// mutex is given back: so a wake-up that is lost fails at once in place of hanging. Package core
// does nothing by itself: a due command has an agent, which polls it, and a later one has a timer.
//
//  1. A tenure with a command that is due has an agent. The agent is the keeper, which was nudged,
//     or a call that is about to poll the tenure, or is between its poll and the answer. A call
//     that sleeps is no agent.
//  2. Only exit gives the mutex back where package core may have changed, and no effect is left
//     then.
//  3. A call that has the lock does not return before the earlier losses are reported.
//  4. The slot among the commands in flight comes before the poll. Each command has one answer, also
//     if its carrier panics, and when the client closes.
//  5. The clocks are read after the mutex is taken.
//  6. Each time has a timer: the time of a tenure is the keeper's or its call's, the time of a call
//     is its goroutine's.
//  7. Mutexes are taken in this order: the mutexes of package composite; one of a shard; then those
//     of the keeper, the losses, the notices and the hub. No code of a user runs under the mutex of
//     a shard, and a context of a user is such code.
//  8. A call that returns without the lock has an error.
//
// Rules 2 and 5 are asserted at each exit, rules 1 and 6 too, unless the shard has many calls,
// rules 3 and 8 when a call returns, and rules 4 and 7 when it comes to that. Each place asks the
// constant invariants first: so what ships asserts nothing.

// A witness asserts the rules, and panics if one is broken. Beside the rules of a shard it notes
// what no shard can see by itself: which commands have no answer (rule 4), and which goroutine has
// which mutex (rule 7). What ships has none, and calls none, since the constant invariants is
// false: invariants_on.go has the only one.
type witness interface {
	// takes notes that the goroutine takes the mutex of a shard. checks asserts the rules of the
	// shard, and gives notes that the goroutine gives the mutex back.
	takes()
	checks(s *shard)
	gives(s *shard)
	// returns asserts rule 3 for a call that is about to return with the lock.
	returns(s *shard, n *Name, o core.OwnerID, earlier *earlierLosses)
	// fails asserts rule 8 for a call that is about to return without the lock.
	fails(err error)

	// polled notes a command that is about to be sent. Its sender has a slot of the limit, or is
	// the keeper, whose batches have a limit of their own: then slot is nil. carried notes that the
	// command needs no slot any more, and noteAnswerArrived that it has its answer. countUnanswered
	// returns the number of commands without an answer.
	polled(cmd *core.Command, slot *wire.Limit)
	carried(cmd *core.Command)
	noteAnswerArrived(cmd *core.Command)
	countUnanswered() int

	// enters and leaves note that the goroutine takes another mutex, and gives it back. outside
	// panics if the goroutine has a mutex, since the next step is code of a user, or takes a mutex
	// that comes before. watchContext returns a context of a caller whose methods assert that.
	enters(mutex string)
	leaves()
	outside(next string)
	watchContext(ctx context.Context) context.Context
}

// newWitness returns the witness of a client that begins.
var newWitness func(c *Client) witness

// CheckRules makes clients that begin from now on assert the rules, or not, and returns what they
// did before. Without the build tag "invariants" none does.
func CheckRules(on bool) (was bool) {
	was, checks = checks, on
	return was
}

// checks is set by tests.
var checks bool

// AssertsRules is for tests that count allocations: with the build tag a call allocates for what
// could assert the rules, also if nothing does.
const AssertsRules = invariants
