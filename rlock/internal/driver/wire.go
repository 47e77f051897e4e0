package driver

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A carrier takes commands to Redis, and messages from there. The one of a client is redis (redis.go);
// tests have one whose answers they hold back, lose and reorder.
type carrier interface {
	traits() traits
	// Limits are those of the commands in flight to the node of the slot, and group is the number of the lock's node.
	Limits(slot uint16) *wire.Limits
	group(n *Name) uint32

	// carry takes the command of a call to Redis, and reports whether it has its answer, or will have none. Otherwise the
	// caller has left, by the context or by x.until, and the answer is landed later. carryAll takes the commands of the keeper
	// there, in one pipeline.
	carry(ctx context.Context, x *exchange) (answered bool)
	carryAll(ctx context.Context, all []*exchange)

	// listen subscribes to the channel on which the client is told of its tickets. It waits for nothing, and
	// neither does what it calls: hear with each message, and confirmed, under a mutex of its own, when the
	// subscription was confirmed, refused or lost.
	listen(n *Name, hear func(message string), confirmed func()) subscription
	// hears reports whether that channel is subscribed to anyhow.
	hears(n *Name) bool

	// refresh looks at the nodes again if that is long ago, or one does not answer.
	refresh(now time.Time, trouble bool)
	// Start calls work in a goroutine that Close waits for, and reports whether it did.
	Start(work func()) bool
}

// traits are what the driver has to know of a carrier.
type traits struct {
	patience   time.Duration // how long an Unlock has
	replicated bool          // a grant needs replicas
	cluster    bool          // messages go from node to node
	tracks     bool          // Redis tells of changed keys
}

// A subscription is one to the channel of a lock.
type subscription interface {
	// state reports whether messages come, and whether the server has refused the channel.
	state() (confirmed, refused bool)
	// abroad subscribes as well to what foreign clients are told, or ends that. abroadHeard reports
	// whether those messages come.
	abroad(hear func(string))
	home()
	abroadHeard() bool
	close()
}

// An exchange is a command on its way, and its answer.
type exchange struct {
	cmd    core.Command
	name   *Name
	kind   *kind
	text   string // the owner as Redis knows it: "<uuid>:<id>"
	passed string // of a Resume: the owner that the lock was passed on with; of a forced Leave: the holder
	joins  string // the same of the ticket that joins with a Leave
	track  bool   // of a Mirror: Redis is to tell of changes of the key
	counts bool   // of a Join and a Look: where does the ticket stand?
	first  bool   // an acquire, a write or a release, and no other command of the tenure can be in flight: see wire.Order
	at     core.Time
	after  uint64           // of a Leave: the generation of the command that has brought the tenure in, see wire.Sent
	until  *until           // by which its caller leaves, nil for one that does not
	write  *write           // of a Write, and of a Leave that carries one
	row    *row             // of an Acquire: that it is sent with, nil for none
	unless *terms.Condition // of an Acquire or a Join: the condition before it, nil for none

	lock    *lock
	work    *work              // nil of a forced Leave
	waiter  *waiter            // whose goroutine carries it; nil for the keeper, or if it has left
	slot    *wire.Limit        // nil for the keeper
	info    *terms.RenewedInfo // of the keeper's batch
	claimed bool               // of a Mirror: Redis was asked for a claim before
	answer  answer
}

// An answer is the result of a command.
type answer struct {
	core.Reply
	err    error
	holder string    // as Redis names it
	clock  int64     // of Redis in µs, 0 if it is not told
	met    *string   // what the condition has returned in place of the command, nil if that was executed
	before int       // the ticket is in the queue, and so many stand before it; negative: that is not known
	sent   wire.Sent // of a command that was sent by do
	heard  bool      // the server has answered
}
