package explore

import (
	"flag"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
)

var (
	deep  = flag.Bool("deep", false, "explore the setups that take long, each up to -limit")
	limit = flag.Duration("limit", 10*time.Minute, "how long to explore a setup of -deep")
	most  = flag.Int("states", 50_000, "how many states of a setup to explore; 0: all")
	only  = flag.String("only", "", "only the setups, rules and cells whose name contains this; prints traces")
)

var (
	fair    = core.Kind{Strict: true}
	fenced  = core.Kind{Fenced: true}
	permit  = core.Kind{Strict: true, Permits: 1}
	permits = core.Kind{Strict: true, Permits: 2}
)

// passes is a setup in which clients pass the lock to one another: all of it is 22 million states,
// but a server that starves the subscriber, since no ticket lets it go first, is found within 70
// 000.
var passes = Setup{Name: "2x1 and a subscriber, without end", Clients: 2, Users: 1, Foreign: []Foreign{Subscriber}, ForeignTicks: 6, Passes: 9}

// resumes is one in which a client may pass the lock on in each section, and resume it itself: the
// other waits in the queue.
var resumes = Setup{Name: "2x2, Pass, without end", Clients: 2, Users: 2, Do: Pass, Passes: 5}

// claimed is one of readers with a claim that is longer than their lease: the mirror that names the
// other reader must not shorten how long Redis shows their tenure.
var claimed = Setup{Name: "readers 1x2, leases shorter than a claim", Clients: 1, Users: 2, Rounds: 1, RW: true, Do: Read | OnlyRead, Lease: 3, Claim: 6, Idle: 7, Foreign: []Foreign{Subscriber, Reader}, ForeignRounds: 2, Faults: 1, Fault: Break | Partition, begin: readersByClaim}

// The setups of the gate: each is explored to its end, or up to -states. With -short a part of
// those that are quick is explored.
var quick = []Setup{
	{Name: "1x1", Clients: 1, Users: 1, Rounds: 2, Do: Try | Timed | Nest | Cancel | Fixed},
	{Name: "1x1, slots", Clients: 1, Users: 1, Rounds: 2, Slots: 1, Do: Try | Timed | Nest | Cancel | Fixed},
	{Name: "1x2, slots", Clients: 1, Users: 2, Rounds: 1, Slots: 1, Do: Timed | Cancel},
	{Name: "2x1, taken over", Clients: 2, Users: 1, Rounds: 1, Do: Take | Cancel},
	{Name: "2x1, taken over, nested", Clients: 2, Users: 1, Rounds: 1, Do: Take | Nest},
	{Name: "1x2, taken over", Clients: 1, Users: 2, Rounds: 1, Do: Take},
	{Name: "3x1, taken over", Clients: 3, Users: 1, Rounds: 1, Do: Take},
	{Name: "2x1, taken over, Pass", Clients: 2, Users: 1, Rounds: 1, Do: Take | Pass},
	{Name: "2x1, taken over, deaths", Clients: 2, Users: 1, Rounds: 1, Do: Take, Faults: 1, Fault: Die},
	{Name: "2x1, taken over, messages", Clients: 2, Users: 1, Rounds: 1, Do: Take, Faults: 1, Fault: LoseMessage | DoubleMessage | Forge},
	{Name: "2x1, taken over, connections", Clients: 2, Users: 1, Rounds: 1, Do: Take, Faults: 1, Fault: Break | Late | Freeze},
	{Name: "readers 2x1, taken over", Clients: 2, Users: 1, Rounds: 1, RW: true, Do: Take | Read},
	{Name: "3x1, let through", Clients: 3, Users: 1, Rounds: 1, Do: Let},
	{Name: "2x1, let through", Clients: 2, Users: 1, Rounds: 1, Do: Let | Cancel | Nest},
	{Name: "2x2, let through", Clients: 2, Users: 2, Rounds: 1, Do: Let | Cancel},
	{Name: "2x1, let through, faults", Clients: 2, Users: 1, Rounds: 1, Do: Let, Faults: 1, Fault: Break | Late | LoseMessage | DoubleMessage | Die | LoseQueue},
	{Name: "2x1, let through and taken over", Clients: 2, Users: 1, Rounds: 1, Do: Let | Take},
	{Name: "readers 2x1, let through", Clients: 2, Users: 1, Rounds: 1, RW: true, Do: Let | Read},
	{Name: "permits 2x1, let through", Clients: 2, Users: 1, Rounds: 1, Kind: permits, Do: Let | Wide},
	{Name: "2x1, forged messages to tickets", Clients: 2, Users: 1, Rounds: 1, Faults: 1, Fault: Forge},
	{Name: "permits 2x1, taken over", Clients: 2, Users: 1, Rounds: 1, Kind: permits, Do: Take | Wide},
	{Name: "2x1, slots, Pass", Clients: 2, Users: 1, Rounds: 1, Slots: 1, Do: Pass},
	{Name: "readers 1x2, slots", Clients: 1, Users: 2, Rounds: 1, Slots: 1, RW: true, Do: Read | Cancel},
	{Name: "1x2, slots and writes", Clients: 1, Users: 2, Rounds: 1, Slots: 1, Do: Write},
	{Name: "1x2", Clients: 1, Users: 2, Rounds: 2, Do: Try | Timed | Nest | Cancel},
	{Name: "2x1", Clients: 2, Users: 1, Rounds: 1, Do: Try | Timed | Nest | Cancel | Fixed},
	{Name: "1x2, capped", Clients: 1, Users: 2, Rounds: 1, Do: Capped | Extend | Nest},
	{Name: "2x1, capped", Clients: 2, Users: 1, Rounds: 1, Do: Capped | Extend},
	{Name: "3x1, bounded join", Clients: 3, Users: 1, Rounds: 1, Do: OnlyBounded},
	{Name: "1x3, bounded join", Clients: 1, Users: 3, Rounds: 1, Do: Bounded | Cancel},
	{Name: "1x3, bounded join of two", Clients: 1, Users: 3, Rounds: 1, Do: Bounded, Most: 2},
	{Name: "fair 2x2, bounded join", Clients: 2, Users: 2, Rounds: 1, Kind: fair, Do: OnlyBounded},
	{Name: "2x1, stays", Clients: 2, Users: 1, Rounds: 1, Do: Stay | Cancel},
	{Name: "1x2, stays", Clients: 1, Users: 2, Rounds: 1, Do: Stay | Nest},
	{Name: "readers 2x1, stays", Clients: 2, Users: 1, Rounds: 1, RW: true, Do: Stay | Read},
	{Name: "readers 1x2, stays", Clients: 1, Users: 2, Rounds: 1, RW: true, Do: Stay | Read | FixedRead | Capped | Pass | Close},
	{Name: "permit 2x1, stays", Clients: 2, Users: 1, Rounds: 1, Kind: permit, Do: Stay},
	{Name: "1x3, attempts", Clients: 1, Users: 3, Rounds: 1, Do: Try | OnlyTry | Cancel},
	{Name: "readers 1x3, attempts", Clients: 1, Users: 3, Rounds: 1, RW: true, Do: Try | OnlyTry | Read | OnlyRead | Cancel},
	{Name: "readers 1x3, attempts and writers", Clients: 1, Users: 3, Rounds: 1, RW: true, Do: Try | OnlyTry | Read},
	{Name: "1x2, attempts and connections", Clients: 1, Users: 2, Rounds: 2, Do: Try | OnlyTry | Cancel, Faults: 1, Fault: Break | NotRun},
	{Name: "2x1, messages", Clients: 2, Users: 1, Rounds: 1, Do: Cancel, Faults: 1, Fault: LoseMessage | Cut | Forge},
	{Name: "2x1, a claim unheard", Clients: 2, Users: 1, Rounds: 1, Look: 5, Idle: 6, Do: Cancel, Faults: 1, Fault: LoseMessage},
	{Name: "2x1, deaths", Clients: 2, Users: 1, Rounds: 1, Do: Cancel, Faults: 1, Fault: Die},
	{Name: "2x1, slow", Clients: 2, Users: 1, Rounds: 1, Do: Cancel, Faults: 1, Fault: Slow},
	{Name: "2x1, brief claims", Clients: 2, Users: 1, Rounds: 1, Lease: 6, Claim: 4, Brief: 2, Do: Cancel, Faults: 1, Fault: Slow | Freeze},
	{Name: "2x1, stall", Clients: 2, Users: 1, Rounds: 1, Do: Cancel, Faults: 1, Fault: Stall},
	{Name: "3x1", Clients: 3, Users: 1, Rounds: 1},
	{Name: "2x1, without end", Clients: 2, Users: 1},
	{Name: "1x2, one owner", Clients: 1, Users: 2, Rounds: 2, Do: Same},
	{Name: "2x1, by force", Clients: 2, Users: 1, Rounds: 1, Do: Force | Cancel},
	{Name: "1x1, by force, in any order", Clients: 1, Users: 1, Rounds: 1, Overtakes: true, Do: Force | Try | Cancel | Nest},
	{Name: "1x2, by force, in any order", Clients: 1, Users: 2, Rounds: 1, Overtakes: true, Do: Force},
	{Name: "1x2, attempts, by force, in any order", Clients: 1, Users: 2, Rounds: 1, Overtakes: true, Do: Force | OnlyTry},
	{Name: "2x1, by force, in any order", Clients: 2, Users: 1, Rounds: 1, Overtakes: true, Do: Force},
	{Name: "fair 1x2, by force, in any order", Clients: 1, Users: 2, Rounds: 1, Kind: fair, Overtakes: true, Do: Force},
	{Name: "readers 1x2, by force, in any order", Clients: 1, Users: 2, Rounds: 1, RW: true, Overtakes: true, Do: Force | Read},
	{Name: "permit 1x2, by force, in any order", Clients: 1, Users: 2, Rounds: 1, Kind: permit, Overtakes: true, Do: Force},
	{Name: "1x1, Pass, by force, in any order", Clients: 1, Users: 1, Rounds: 2, Overtakes: true, Do: Force | Pass},
	{Name: "fair 2x1, stall", Clients: 2, Users: 1, Rounds: 1, Kind: fair, Lease: 3, Claim: 4, Faults: 1, Fault: Stall},
	{Name: "readers 1x3", Clients: 1, Users: 3, Rounds: 1, RW: true, Do: Read | Cancel},
	{Name: "readers 1x2, leases", Clients: 1, Users: 2, Rounds: 2, RW: true, Do: Read | FixedRead | Downgrade},
	{Name: "readers 2x1, downgrades", Clients: 2, Users: 1, Rounds: 1, RW: true, Do: Read | Downgrade | FixedRead | Cancel},
	{Name: "permit 2x1", Clients: 2, Users: 1, Rounds: 1, Kind: permit, Do: Try | Cancel | Nest},
	{Name: "permits 3x1", Clients: 3, Users: 1, Rounds: 1, Kind: permits},
	{Name: "permits 2x1, wide", Clients: 2, Users: 1, Rounds: 1, Kind: permits, Do: Wide | Try | Cancel | Nest},
	{Name: "permits 2x1, wide, Pass", Clients: 2, Users: 1, Rounds: 1, Kind: permits, Do: Wide | Pass},
	{Name: "permits 2x1, wide, faults", Clients: 2, Users: 1, Rounds: 1, Kind: permits, Do: Wide, Faults: 1, Fault: Break | Late | LoseMessage},
	{Name: "permits 2x1, wide, repeats", Clients: 2, Users: 1, Rounds: 1, Kind: permits, Do: Wide, Lease: 20, Faults: 1, Fault: Repeat},
	{Name: "permits 3x1, wide", Clients: 3, Users: 1, Rounds: 1, Kind: permits, Do: Wide},
	{Name: "permits 3x1, deaths", Clients: 3, Users: 1, Rounds: 1, Kind: permits, Faults: 1, Fault: Die | LoseMessage},
	{Name: "2x1, short waits", Clients: 2, Users: 1, Rounds: 2, Do: Timed | Try, Least: 2},
	{Name: "1x1 and a subscriber", Clients: 1, Users: 1, Rounds: 2, Do: Try, Foreign: []Foreign{Subscriber}, ForeignRounds: 2},
	{Name: "1x1 and a poller", Clients: 1, Users: 1, Rounds: 2, Do: Try, Foreign: []Foreign{Poller}, ForeignRounds: 2, Idle: 5},
	{Name: "2x1 and a fair waiter", Clients: 2, Users: 1, Rounds: 1, Foreign: []Foreign{Queuer}, ForeignRounds: 1},
	{Name: "1x1 and two fair waiters, passed", Clients: 1, Users: 1, Foreign: []Foreign{Queuer, Queuer}, ForeignRounds: 1, ForeignTicks: 8, Passes: 9, begin: passedFair},
	{Name: "2x1 and one that never tries", Clients: 2, Users: 1, Rounds: 1, Foreign: []Foreign{Sleeper}, Look: 9, Lease: 9},
	{Name: "1x1 and one that never pauses", Clients: 1, Users: 1, Foreign: []Foreign{Tireless}, ForeignTicks: 6, Passes: 4},
	{Name: "3x1 and one that never pauses, two dead", Clients: 3, Users: 1, Foreign: []Foreign{Tireless}, ForeignTicks: 6, Passes: 3, begin: deadFirst},
	{Name: "2x1 and one that never pauses, one that stands still", Clients: 2, Users: 1, Foreign: []Foreign{Tireless}, ForeignTicks: 6, Passes: 3, begin: stoppedFirst},
	{Name: "3x1 and one that never pauses, two that stand still", Clients: 3, Users: 1, Foreign: []Foreign{Tireless}, ForeignTicks: 6, Passes: 6, begin: twoStoppedFirst},
	{Name: "writes 1x2", Clients: 1, Users: 2, Rounds: 1, Ordered: true, Do: Write | Nest},
	{Name: "writes of readers 1x3", Clients: 1, Users: 3, Rounds: 1, RW: true, Do: Write | Read | OnlyRead},
	{Name: "writes 2x1", Clients: 2, Users: 1, Rounds: 1, Do: Write | Fixed},
	{Name: "releases with writes 1x2", Clients: 1, Users: 2, Rounds: 2, Do: Carry | Nest | Cancel},
	{Name: "releases with writes 2x1", Clients: 2, Users: 1, Rounds: 1, Do: Carry | Fixed | Cancel},
	{Name: "answers 2x1", Clients: 2, Users: 1, Rounds: 2, Do: Carry | Ask | Cancel},
	{Name: "answers 2x1, messages", Clients: 2, Users: 1, Rounds: 1, Do: Carry | Ask, Faults: 1, Fault: LoseMessage | DoubleMessage | Cut},
	{Name: "permit 2x1, Pass", Clients: 2, Users: 1, Rounds: 1, Kind: permit, Do: Pass | Cancel},
	{Name: "readers 2x1, Pass", Clients: 2, Users: 1, Rounds: 1, RW: true, Do: Read | Pass | Cancel},
	{Name: "readers 2x1, downgrade and Pass", Clients: 2, Users: 1, Rounds: 1, RW: true, Do: Read | Downgrade | Pass},
	{Name: "2x1, repeats", Clients: 2, Users: 1, Rounds: 1, Do: Nest, Faults: 1, Fault: Repeat},
	{Name: "2x1, repeats of long leases", Clients: 2, Users: 1, Rounds: 1, Lease: 20, Faults: 1, Fault: Repeat},
	{Name: "permit 2x1, repeats of long leases", Clients: 2, Users: 1, Rounds: 1, Kind: permit, Lease: 20, Faults: 1, Fault: Repeat},
	{Name: "1x2, repeats", Clients: 1, Users: 2, Rounds: 1, Do: Fixed | Nest, Faults: 1, Fault: Repeat},
	{Name: "fair 2x1, repeats", Clients: 2, Users: 1, Rounds: 1, Kind: fair, Faults: 1, Fault: Repeat},
	{Name: "fenced 2x1, repeats", Clients: 2, Users: 1, Rounds: 1, Kind: fenced, Faults: 1, Fault: Repeat},
	{Name: "permit 2x1, repeats", Clients: 2, Users: 1, Rounds: 1, Kind: permit, Do: Nest, Faults: 1, Fault: Repeat},
	{Name: "1x2, one owner, notes", Clients: 1, Users: 2, Rounds: 3, Do: Same | Noted},
	{Name: "2x1, notes", Clients: 2, Users: 1, Rounds: 2, Do: Noted | Nest | Cancel},
	{Name: "1x2, notes", Clients: 1, Users: 2, Rounds: 2, Do: Noted | Try | Cancel},
	{Name: "readers 1x2, notes", Clients: 1, Users: 2, Rounds: 2, RW: true, Do: Noted | Read | Downgrade},
	{Name: "readers 1x2, notes and leases", Clients: 1, Users: 2, Rounds: 2, RW: true, Lease: 9, Do: Noted | OnlyRead | Read | FixedRead},
	{Name: "permits 2x1, notes", Clients: 2, Users: 1, Rounds: 1, Kind: permits, Do: Noted | Wide | Pass | Nest},
	{Name: "permit 2x1, notes and faults", Clients: 2, Users: 1, Rounds: 1, Kind: permit, Do: Noted | Cancel, Faults: 1, Fault: Break | Late | LoseMessage},
	{Name: "2x1, stays, repeats", Clients: 2, Users: 1, Rounds: 1, Do: Stay, Faults: 1, Fault: Repeat},
}

var thorough = []Setup{
	{Name: "2x2, attempts", Clients: 2, Users: 2, Rounds: 1, Do: Try | OnlyTry},
	{Name: "1x2, attempts and waits, faults", Clients: 1, Users: 2, Rounds: 1, Do: Try | Timed, Faults: 1, Fault: Break | Late | NotRun | WrongType},
	{Name: "1x3, attempts, faults", Clients: 1, Users: 3, Rounds: 1, Do: Try | OnlyTry | Cancel, Faults: 1, Fault: Break | Late | NotRun | WrongType},
	{Name: "1x3, attempts and a slot", Clients: 1, Users: 3, Rounds: 1, Slots: 1, Do: Try | Cancel},
	{Name: "readers 1x3, attempts, faults", Clients: 1, Users: 3, Rounds: 1, RW: true, Do: Try | OnlyTry | Read, Faults: 1, Fault: Break | Late},
	{Name: "fair 1x3, attempts", Clients: 1, Users: 3, Rounds: 1, Kind: fair, Do: Try},
	{Name: "2x1, slots", Clients: 2, Users: 1, Rounds: 1, Slots: 1, Do: Try | Timed | Cancel},
	{Name: "2x1, slots, ordered", Clients: 2, Users: 1, Rounds: 1, Slots: 1, Ordered: true, Do: Timed | Cancel},
	{Name: "2x1, slots, slow", Clients: 2, Users: 1, Rounds: 1, Slots: 1, Do: Cancel, Faults: 1, Fault: Slow},
	{Name: "1x2, two slots", Clients: 1, Users: 2, Rounds: 1, Slots: 2, Do: Cancel | Nest, Faults: 1, Fault: Break | Late},
	{Name: "fair 1x2, slots", Clients: 1, Users: 2, Rounds: 1, Slots: 1, Kind: fair, Do: Cancel},
	{Name: "fenced 2x1, slots", Clients: 2, Users: 1, Rounds: 1, Slots: 1, Kind: fenced, Do: Pass | Nest},
	{Name: "permits 2x1, slots", Clients: 2, Users: 1, Rounds: 1, Slots: 1, Kind: permit, Do: Pass | Nest | Cancel},
	{Name: "1x2, slots and Close", Clients: 1, Users: 2, Rounds: 1, Slots: 1, Do: Close | Cancel, Faults: 1, Fault: Break | Late | Delete},
	{Name: "1x1, slots, connections", Clients: 1, Users: 1, Rounds: 1, Slots: 1, Do: Cancel | Nest | Pass, Faults: 1, Fault: Break | Late | NotRun | WrongType | Double | Delete},
	{Name: "1x2, ordered", Clients: 1, Users: 2, Rounds: 1, Ordered: true, Do: Timed | Cancel | Close},
	{Name: "2x1, capped, faults", Clients: 2, Users: 1, Rounds: 1, Do: Capped, Faults: 1, Fault: Slow | Freeze},
	{Name: "readers 1x2, capped", Clients: 1, Users: 2, Rounds: 1, RW: true, Do: Capped | Read | FixedRead},
	{Name: "2x2, bounded join", Clients: 2, Users: 2, Rounds: 1, Do: Bounded},
	{Name: "3x1, bounded join, faults", Clients: 3, Users: 1, Rounds: 1, Do: OnlyBounded, Faults: 1, Fault: Break | LoseQueue | Die | LoseMessage},
	{Name: "readers 3x1, bounded join", Clients: 3, Users: 1, Rounds: 1, RW: true, Do: OnlyBounded | Read},
	{Name: "permits 3x1, bounded join", Clients: 3, Users: 1, Rounds: 1, Kind: permit, Do: OnlyBounded | Cancel},
	{Name: "2x1, bounded join and a subscriber", Clients: 2, Users: 1, Rounds: 1, Do: Bounded, Foreign: []Foreign{Subscriber}, ForeignRounds: 1},
	{Name: "2x1, stays, faults", Clients: 2, Users: 1, Rounds: 1, Do: Stay, Faults: 1, Fault: Break | Late | Slow | Delete | NotRun},
	{Name: "3x1, Pass", Clients: 3, Users: 1, Rounds: 1, Do: Pass},
	{Name: "2x1, Pass", Clients: 2, Users: 1, Rounds: 1, Do: Pass | Cancel, Faults: 1, Fault: Break | Late | Unreplicated | NotRun},
	{Name: "1x2, Close", Clients: 1, Users: 2, Rounds: 2, Do: Try | Cancel | Close, Faults: 1, Fault: Break | Late},
	{Name: "writes 1x2, faults", Clients: 1, Users: 2, Rounds: 1, Do: Write | Cancel, Faults: 1, Fault: Break | Late | Double | Partition | Slow | NotRun},
	{Name: "writes 1x2, ordered", Clients: 1, Users: 2, Rounds: 2, Ordered: true, Do: Write, Faults: 1, Fault: Break | Late | Double},
	{Name: "2x2, Pass", Clients: 2, Users: 2, Rounds: 1, Do: Pass},
	{Name: "writes 2x1, faults", Clients: 2, Users: 1, Rounds: 1, Do: Write, Faults: 1, Fault: Break | Late | Double | Die},
	{Name: "writes 2x1, Pass", Clients: 2, Users: 1, Rounds: 1, Do: Write | Pass, Faults: 1, Fault: Late | Double},
	{Name: "writes 1x2, stays, and Close", Clients: 1, Users: 2, Rounds: 1, Do: Write | Stay | Close, Faults: 1, Fault: Break | Late},
	{Name: "writes of readers 1x2", Clients: 1, Users: 2, Rounds: 1, RW: true, Do: Write | Read | Downgrade, Faults: 1, Fault: Late | Double},
	{Name: "writes of readers 2x1", Clients: 2, Users: 1, Rounds: 1, RW: true, Do: Write | Read, Faults: 1, Fault: Late},
	{Name: "writes, fair 2x1", Clients: 2, Users: 1, Rounds: 1, Kind: fair, Do: Write, Faults: 1, Fault: Break | Late | Double},
	{Name: "writes, permits 2x1", Clients: 2, Users: 1, Rounds: 1, Kind: permit, Do: Write, Faults: 1, Fault: Break | Late | Double | Slow},
	{Name: "releases with writes 1x2, faults", Clients: 1, Users: 2, Rounds: 1, Slots: 1, Do: Carry, Faults: 1, Fault: Break | Late | Repeat | Slow | NotRun | Delete},
	{Name: "releases with writes 2x1, faults", Clients: 2, Users: 1, Rounds: 1, Do: Carry, Faults: 1, Fault: Break | Late | Double | Repeat | Partition | Freeze | JoinFails},
	{Name: "releases with writes of readers 2x1", Clients: 2, Users: 1, Rounds: 1, RW: true, Do: Carry | Read, Faults: 1, Fault: Late | Repeat},
	{Name: "releases with writes, permits 2x1", Clients: 2, Users: 1, Rounds: 1, Kind: permit, Do: Carry, Faults: 1, Fault: Break | Late | Repeat | Slow},
	{Name: "answers 2x1, faults", Clients: 2, Users: 1, Rounds: 1, Do: Carry | Ask, Faults: 1, Fault: Break | Late | Repeat | Slow | Freeze | Die},
	{Name: "answers 2x2", Clients: 2, Users: 2, Rounds: 1, Do: Carry | Ask},
	{Name: "answers 3x1", Clients: 3, Users: 1, Rounds: 1, Do: Carry | Ask},
	{Name: "1x2, limits", Clients: 1, Users: 2, Rounds: 1, Do: Timed | Cancel, Faults: 2, Fault: Break | Late | Slow},
	{Name: "2x1, connections", Clients: 2, Users: 1, Rounds: 1, Do: Cancel, Faults: 1, Fault: Break | Late | NotRun},
	{Name: "2x1, ordered", Clients: 2, Users: 1, Rounds: 1, Ordered: true, Do: Try | Cancel, Faults: 1, Fault: Break | Late},
	{Name: "2x1, late without a bound", Clients: 2, Users: 1, Rounds: 1, Do: Cancel, Faults: 1, Fault: Endless},
	{Name: "2x1, doubles", Clients: 2, Users: 1, Rounds: 1, Do: Cancel, Faults: 1, Fault: Double | DoubleMessage},
	{Name: "2x1, stand still", Clients: 2, Users: 1, Rounds: 1, Do: Cancel, Faults: 1, Fault: Freeze | Sleep},
	{Name: "2x1, partition", Clients: 2, Users: 1, Rounds: 1, Faults: 1, Fault: Partition},
	{Name: "2x1, brief claims, two rounds", Clients: 2, Users: 1, Rounds: 2, Lease: 6, Claim: 4, Brief: 2, Faults: 1, Fault: Slow | Freeze},
	{Name: "2x1, brief claims, connections", Clients: 2, Users: 1, Rounds: 1, Lease: 6, Claim: 4, Brief: 2, Faults: 1, Fault: Break | Late | LoseMessage | DoubleMessage | Die},
	{Name: "2x2, brief claims", Clients: 2, Users: 2, Rounds: 1, Lease: 6, Claim: 4, Brief: 2},
	{Name: "fair 2x1, brief claims", Clients: 2, Users: 1, Rounds: 1, Kind: fair, Lease: 6, Claim: 4, Brief: 2, Faults: 1, Fault: Slow | Freeze | Die | LoseMessage},
	{Name: "readers 2x1, brief claims", Clients: 2, Users: 1, Rounds: 1, RW: true, Do: Read, Lease: 6, Claim: 4, Brief: 2, Faults: 1, Fault: Slow | Freeze | LoseMessage},
	{Name: "permit 2x1, brief claims", Clients: 2, Users: 1, Rounds: 1, Kind: permit, Lease: 6, Claim: 4, Brief: 2, Faults: 1, Fault: Slow | Freeze | Die | LoseMessage},
	{Name: "2x1, losses of Redis", Clients: 2, Users: 1, Rounds: 1, Do: Cancel, Faults: 1, Fault: Wipe | LoseQueue | Delete},
	{Name: "2x1, failover", Clients: 2, Users: 1, Rounds: 1, Faults: 1, Fault: Failover},
	{Name: "2x1, leases shorter than a claim", Clients: 2, Users: 1, Rounds: 1, Lease: 3, Claim: 4, Do: Cancel, Faults: 1, Fault: Break | Slow | Stall},
	{Name: "2x1, no pub/sub", Clients: 2, Users: 1, Rounds: 1, Polling: true, Do: Cancel | Try, Faults: 1, Fault: Break | Late},
	{Name: "2x1, stays, leaves", Clients: 2, Users: 1, Rounds: 1, Do: Stay | Cancel, Faults: 1, Fault: Break | LoseMessage},
	{Name: "2x1, Pass, connections", Clients: 2, Users: 1, Rounds: 1, Do: Pass, Faults: 1, Fault: Double | Slow | WrongType},
	{Name: "2x1, Pass, messages", Clients: 2, Users: 1, Rounds: 1, Do: Pass, Faults: 1, Fault: LoseMessage | DoubleMessage | Forge | Failover},
	{Name: "1x2, Pass", Clients: 1, Users: 2, Rounds: 1, Do: Pass | Cancel, Faults: 1, Fault: Break | Late},
	{Name: "fenced 2x1, Pass, late", Clients: 2, Users: 1, Rounds: 1, Do: Pass, Kind: fenced, Faults: 1, Fault: Late},
	{Name: "2x1, steady", Clients: 2, Users: 1, Rounds: 1, Steady: true, Faults: 2, Fault: Break | Slow},
	{Name: "1x2, a slow driver", Clients: 1, Users: 2, Rounds: 1, Lazy: true, Do: Nest | Cancel | Timed},
	{Name: "2x1, a slow driver", Clients: 2, Users: 1, Rounds: 1, Lazy: true},
	{Name: "2x2", Clients: 2, Users: 2, Rounds: 1},
	{Name: "3x1, a claim unheard", Clients: 3, Users: 1, Rounds: 1, Look: 5, Idle: 6, Faults: 1, Fault: LoseMessage},
	{Name: "3x1, deaths", Clients: 3, Users: 1, Rounds: 1, Faults: 1, Fault: Die | LoseMessage},
	{Name: "fair 2x2", Clients: 2, Users: 2, Rounds: 1, Kind: fair},
	{Name: "fair 2x1, connections", Clients: 2, Users: 1, Rounds: 1, Kind: fair, Do: Cancel | Try, Faults: 1, Fault: Break | Late | LoseMessage},
	{Name: "readers 2x2", Clients: 2, Users: 2, Rounds: 1, RW: true, Do: Read},
	{Name: "readers 2x1, faults", Clients: 2, Users: 1, Rounds: 1, RW: true, Do: Read, Faults: 1, Fault: Break | Late | LoseMessage | Slow},
	{Name: "fenced 2x2", Clients: 2, Users: 2, Rounds: 1, Kind: fenced},
	{Name: "fenced 2x1, faults", Clients: 2, Users: 1, Rounds: 1, Kind: fenced, Faults: 1, Fault: Break | Late | LoseMessage},
	{Name: "2x1, errors", Clients: 2, Users: 1, Rounds: 1, Do: Cancel, Faults: 1, Fault: WrongType | Unreplicated | NotRun},
	{Name: "2x2, a join fails", Clients: 2, Users: 2, Rounds: 1, Faults: 1, Fault: JoinFails},
	{Name: "1x2 and a subscriber", Clients: 1, Users: 2, Rounds: 1, Do: Cancel, Foreign: []Foreign{Subscriber}, ForeignRounds: 2},
	{Name: "2x1 and a subscriber", Clients: 2, Users: 1, Rounds: 1, Foreign: []Foreign{Subscriber}, ForeignRounds: 1, Faults: 1, Fault: LoseMessage | Cut},
	{Name: "1x1 and a subscriber, without end", Clients: 1, Users: 1, Foreign: []Foreign{Subscriber}, ForeignTicks: 3, Passes: 9},
	{Name: "1x1 and a subscriber, where pollers were, without end", Clients: 1, Users: 1, Foreign: []Foreign{Subscriber, Former}, ForeignTicks: 3, Passes: 9, Idle: 5},
	{Name: "2x1, shorter leases", Clients: 2, Users: 1, Rounds: 1, Lease: 9, Look: 9, Do: Pass | Stay},
	{Name: "readers 2x1, shorter leases", Clients: 2, Users: 1, Rounds: 1, RW: true, Lease: 9, Look: 9, Do: Read | Pass | Stay},
	{Name: "1x1, shorter leases, and a subscriber", Clients: 1, Users: 1, Rounds: 2, Lease: 9, Look: 9, Do: Pass | SetLease | Stay, Foreign: []Foreign{Subscriber}, ForeignRounds: 1},
	{Name: "1x1, shorter leases, and a fair waiter", Clients: 1, Users: 1, Rounds: 2, Lease: 9, Look: 9, Do: Pass | SetLease | Stay, Foreign: []Foreign{Queuer}, ForeignRounds: 1},
	{Name: "1x1 and two fair waiters", Clients: 1, Users: 1, Rounds: 1, Do: Cancel, Foreign: []Foreign{Queuer, Queuer}, ForeignRounds: 1},
	{Name: "2x1 and a fair waiter, messages", Clients: 2, Users: 1, Rounds: 1, Foreign: []Foreign{Queuer}, ForeignRounds: 1, Faults: 1, Fault: LoseMessage | Cut},
	{Name: "1x1 and a fair waiter, without end", Clients: 1, Users: 1, Foreign: []Foreign{Queuer}, ForeignTicks: 3, Passes: 9},
	{Name: "readers 2x1 and a reader", Clients: 2, Users: 1, Rounds: 1, RW: true, Do: Read, Foreign: []Foreign{Reader}, ForeignRounds: 1},
	{Name: "readers 2x1, a writer and a reader", Clients: 2, Users: 1, Rounds: 1, RW: true, Do: Read | OnlyRead, Foreign: []Foreign{Writer, Reader}, ForeignRounds: 1, begin: foreignWriter},
	claimed,
	{Name: "2x1, repeats of leases", Clients: 2, Users: 1, Rounds: 1, Do: Fixed | Nest, Faults: 1, Fault: Repeat},
	{Name: "readers 2x1, repeats", Clients: 2, Users: 1, Rounds: 1, RW: true, Do: Read | Downgrade, Faults: 1, Fault: Repeat},
	{Name: "2x1, Pass, repeats", Clients: 2, Users: 1, Rounds: 1, Do: Pass, Faults: 1, Fault: Repeat},
	{Name: "permit 2x1, Pass, repeats", Clients: 2, Users: 1, Rounds: 1, Kind: permit, Do: Pass, Faults: 1, Fault: Repeat},
	{Name: "permit 2x1, faults", Clients: 2, Users: 1, Rounds: 1, Kind: permit, Do: Cancel, Faults: 1, Fault: Break | Late | Slow},
}

// readersByClaim lets two users read by a claim, which is longer than a lease: a foreign writer
// releases the lock just before Redis executes the join of the first user. A foreign client reads
// as well.
func readersByClaim(w *world) {
	w.foreignActs(0, doForeignTry)
	w.apply(action{kind: doRead})
	joins := func() bool { pipe := w.clients[0].pipe; return len(pipe) > 0 && pipe[0].cmd.Op == core.Join }
	never := func() bool { return false }
	w.settle(joins)
	for _, a := range []action{{kind: doForeignRelease}, {kind: doRead, i: 1}, {kind: doForeignTry, i: 1}} {
		w.apply(a)
		w.settle(never)
	}
}

// settle applies the actions of the driver, the network and Redis until there are none, or done
// reports true. Users, foreign clients, time and faults stand still.
func (w *world) settle(done func() bool) {
	underWay := func(a action) bool { return doNudge <= a.kind && a.kind < doForeignTry }
	for as := w.actions(nil); !done() && slices.ContainsFunc(as, underWay); as = w.actions(nil) {
		w.apply(as[slices.IndexFunc(as, underWay)])
	}
}

// foreignWriter has the first foreign client, a writer, hold the lock, and the second wait for it.
func foreignWriter(w *world) {
	w.foreignActs(0, doForeignTry)
	w.foreignActs(1, doForeignTry)
	w.foreignActs(1, doForeignSubscribe)
}

// In deadFirst tickets of two dead clients are the first behind a foreign client that has the lock,
// and Redis knows.
func deadFirst(w *world) { w.standFirst(core.ID{Client: 1, N: 1}, core.ID{Client: 2, N: 1}) }

// In stoppedFirst two tickets of a process that was stopped are: Redis counts it as one that
// listens.
func stoppedFirst(w *world) {
	w.standFirst(core.ID{Client: 1, N: 1}, core.ID{Client: 1, N: 2})
	w.server.Listens = w.server.Listens.With(1)
}

func twoStoppedFirst(w *world) {
	deadFirst(w)
	w.server.Listens = w.server.Listens.With(1).With(2)
}

func (w *world) standFirst(ids ...core.ID) {
	w.foreignActs(0, doForeignTry)
	for _, id := range ids {
		w.clients[id.Client].dead = true
		w.server.Queue = append(w.server.Queue, core.Ticket{ID: id, Owner: core.OwnerID(id.N)})
	}
	w.server.QueueEnds = server.Time(w.now) + server.Time(w.queueTime())
}

// In passedFair the second of two fair waiters has been passed in five ticks of the six after the
// longest window in vain, and the hash of the windows has expired.
func passedFair(w *world) {
	w.server.Foreign.Fair = []core.ID{foreignID(1), foreignID(0)}
	for i := range w.threads {
		w.threads[i] = thread{kind: Queuer, state: foreignWaiting, rounds: 1, until: w.now + 1}
	}
	w.threads[0].ticks = 5
}

// By hand: go test ./internal/explore -run Deep -v -deep -limit 10m -timeout 5h
var long = []Setup{
	{Name: "2x1, brief claims, faults", Clients: 2, Users: 1, Rounds: 1, Lease: 6, Claim: 4, Brief: 2, Do: Cancel | Nest, Faults: 1, Fault: Break | Late | Slow | Partition | Cut | LoseMessage | DoubleMessage | Die | Repeat},
	{Name: "2x1, brief claims, slow", Clients: 2, Users: 1, Rounds: 1, Lease: 6, Claim: 4, Brief: 2, Faults: 2, Fault: Slow | Freeze},
	{Name: "3x1, brief claims", Clients: 3, Users: 1, Rounds: 1, Lease: 6, Claim: 4, Brief: 2, Faults: 1, Fault: Slow | Freeze | Die},
	{Name: "2x1, partition", Clients: 2, Users: 1, Rounds: 1, Do: Cancel | Nest | Fixed, Faults: 1, Fault: Partition},
	{Name: "2x1, losses of Redis", Clients: 2, Users: 1, Rounds: 2, Do: Cancel, Faults: 1, Fault: Wipe | LoseQueue | Delete},
	{Name: "2x1, two faults", Clients: 2, Users: 1, Rounds: 1, Faults: 2, Fault: Break | Late | Slow | LoseMessage},
	{Name: "2x1, two of all faults", Clients: 2, Users: 1, Rounds: 1, Faults: 2, Fault: Break | Late | Slow | LoseMessage | DoubleMessage | Forge | Cut | Partition | Die | Freeze | Stall},
	{Name: "2x1, without end", Clients: 2, Users: 1, Do: Cancel},
	{Name: "2x1, no pub/sub", Clients: 2, Users: 1, Rounds: 2, Polling: true, Do: Cancel | Try, Faults: 1, Fault: Break | Late},
	{Name: "2x1, subscribed late", Clients: 2, Users: 1, Rounds: 2, Do: Cancel, Look: 9, Lease: 9, Faults: 1, Fault: Slow},
	{Name: "2x1, stays, leases", Clients: 2, Users: 1, Rounds: 1, Do: Fixed | Stay | SetLease | Cancel, Faults: 1, Fault: Break | Late | LoseMessage},
	{Name: "2x1, Pass, twice", Clients: 2, Users: 1, Rounds: 2, Do: Pass | Nest | SetLease, Faults: 1, Fault: Break | Late | LoseMessage},
	{Name: "3x1, Pass, faults", Clients: 3, Users: 1, Rounds: 1, Do: Pass | Cancel, Faults: 1, Fault: Break | Late | Double | Slow | Partition | Die | Freeze | Stall | LoseMessage},
	{Name: "writes 2x1, all faults", Clients: 2, Users: 1, Rounds: 1, Do: Write, Faults: 1, Fault: Break | Late | Double | Partition | Slow | Freeze | Die},
	{Name: "readers 2x2, Pass", Clients: 2, Users: 2, Rounds: 1, RW: true, Do: Read | Pass},
	{Name: "2x1, a slow driver", Clients: 2, Users: 1, Rounds: 1, Lazy: true, Do: Nest | Cancel},
	{Name: "2x2, faults", Clients: 2, Users: 2, Rounds: 1, Faults: 1, Fault: Break | Late | LoseMessage},
	{Name: "2x2, without end", Clients: 2, Users: 2, Passes: 5},
	{Name: "2x1 and a subscriber", Clients: 2, Users: 1, Rounds: 1, Do: Cancel, Foreign: []Foreign{Subscriber}, ForeignRounds: 2},
	{Name: "2x1 and a subscriber, faults", Clients: 2, Users: 1, Rounds: 1, Foreign: []Foreign{Subscriber}, ForeignRounds: 1, Faults: 1, Fault: Break | Late | LoseMessage | Cut},
	{Name: "1x2 and a subscriber, without end", Clients: 1, Users: 2, Foreign: []Foreign{Subscriber}, ForeignTicks: 4, Passes: 9},
	passes, resumes,
	{Name: "2x1 and two fair waiters", Clients: 2, Users: 1, Rounds: 1, Foreign: []Foreign{Queuer, Queuer}, ForeignRounds: 1},
	{Name: "2x1 and a fair waiter, faults", Clients: 2, Users: 1, Rounds: 1, Do: Cancel, Foreign: []Foreign{Queuer}, ForeignRounds: 2, Faults: 1, Fault: Break | Late | LoseMessage | Cut},
	// Ours pass a waiter in six ticks after the longest window in vain, and in two after one that
	// the other waiter used, but was over before a step saw that: see passedFair.
	{Name: "1x1 and two fair waiters, without end", Clients: 1, Users: 1, Foreign: []Foreign{Queuer, Queuer}, ForeignTicks: 8, Passes: 9},
	{Name: "readers 2x1, a writer and a reader", Clients: 2, Users: 1, Rounds: 1, RW: true, Do: Read, Foreign: []Foreign{Writer, Reader}, ForeignRounds: 1},
	{Name: "readers 1x2 and two readers", Clients: 1, Users: 2, Rounds: 1, RW: true, Do: Read, Foreign: []Foreign{Reader, Reader}},
	{Name: "2x2, one owner", Clients: 2, Users: 2, Rounds: 1, Do: Same | Cancel},
	{Name: "fair 2x2, faults", Clients: 2, Users: 2, Rounds: 1, Kind: fair, Faults: 1, Fault: Break | Late | LoseMessage},
	{Name: "fair 3x1, stall", Clients: 3, Users: 1, Rounds: 1, Kind: fair, Lease: 3, Claim: 4, Faults: 1, Fault: Stall | Slow},
	{Name: "readers 2x1", Clients: 2, Users: 1, Rounds: 2, RW: true, Do: Read | Nest | Cancel},
	{Name: "readers 2x2, faults", Clients: 2, Users: 2, Rounds: 1, RW: true, Do: Read, Faults: 1, Fault: Break | Late | LoseMessage},
	{Name: "permits 2x2", Clients: 2, Users: 2, Rounds: 1, Kind: permits},
	{Name: "permits 2x2, faults", Clients: 2, Users: 2, Rounds: 1, Kind: permits, Faults: 1, Fault: Break | Late},
	{Name: "fenced 2x1, faults", Clients: 2, Users: 1, Rounds: 2, Kind: fenced, Faults: 1, Fault: Break | Late | LoseMessage},
}

// total sums the results of setups.
type total struct {
	mu             sync.Mutex // guards the fields below
	setups         int
	states, events int
	reached        Reached
}

var reached total

func (n *total) add(r *Result) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.setups++
	n.states, n.events = n.states+r.States, n.events+r.Events
	for i, more := range r.Reached {
		n.reached[i] += more
	}
}

// ledger logs the explored states. A full run fails that has not reached each hard state: with
// -short some are out of reach, and with -only and -run there are fewer setups.
func (n *total) ledger(t *testing.T, full bool) {
	t.Logf("%d states, %d events; %s", n.states, n.events, &n.reached)
	if !full {
		return
	}
	for _, name := range n.reached.missing() {
		t.Errorf("no state was reached in which there is %s", name)
	}
}

// The promises are kept in every state.
func TestPromises(t *testing.T) {
	all := slices.Concat(quick, thorough)
	t.Cleanup(func() { reached.ledger(t, !testing.Short() && reached.setups == len(all)+2 && !t.Failed()) }) // after all setups
	if testing.Short() {
		run(t, quick, Limit{States: 2_000})
		return
	}
	run(t, all, Limit{States: *most})
	run(t, []Setup{passes, resumes}, Limit{States: 150_000}) // all of them are 22 million states
}

// The same for setups that take long.
func TestDeep(t *testing.T) {
	if !*deep {
		t.Skip("by hand, with -deep")
	}
	run(t, long, Limit{Time: *limit})
}

func run(t *testing.T, setups []Setup, limit Limit) {
	for _, s := range setups {
		if !strings.Contains(s.Name, *only) {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			r := All(s, limit)
			t.Log(r)
			reached.add(&r)
			if r.Bad != "" {
				t.Fatal(Shortest(s, Limit{States: 3_000_000}))
			}
		})
	}
}
