// Package explore runs the code of package core, with a model of Redis (package server), through
// every order of events, and checks in each state that it keeps its promises.
//
// # A world
//
// A [Setup] has the clients and users, their programs, and the faults. A world (world.go) is one
// state: clients with the core's own structs, the driver as data, the network, and Redis. An action
// is one event, and apply makes it happen (action.go). Each sort of action has a file, which says
// when such an action may come next, and what it does:
//
//   - A user (users.go) locks, tries, nests, reads, writes guarded, unlocks, leaves, closes.
//   - A client has one pipeline (network.go): commands wait to be executed, then their answers wait to be read. Messages come
//     in their order, on another connection. So each order of execute, read and hear is a state.
//   - The goroutines of callers (driver.go) run core's calls as the real driver does: what each of them does next, a slot
//     that it waits for, a command that it leaves behind. Slots may be scarce.
//   - The keeper and the timers (driver.go) are data: which tenure is to be polled, and when. With Lazy they take their time.
//     Rule 1 of the driver is checked in each state: a tenure with something to send has an agent, and each time has a timer.
//   - Time is ticks: a lease is 4, a claim 2. A tick comes only when nothing is under way. Otherwise it is a fault.
//   - Foreign clients (foreign.go) subscribe, poll, read, write, stand in Redisson's fair queue, never pause, or only listen.
//   - Faults (network.go) are counted: answers lost, commands late, within a lease or without a bound, or doubled, repeated
//     after their answer, or refused; messages lost, doubled and forged; subscriptions cut; partitions; slow links; a server
//     that stalls; clients that die, stand still, or sleep with their clock; Redis that loses everything or its queue; a lock
//     that a stranger deletes; a failover to an older state.
//
// # States
//
// Two states are one if they differ by the names of tenures and owners, by the numbers of clients
// and users, or by the time (search.go). States are told apart by 64 bits: of three million states
// one is missed with a probability of 2e-7. [Shortest] goes breadth first, so that it finds the
// shortest way to a violation; [All] goes depth first, which needs 16 bytes a state. Worlds are
// copied into memory that is used again.
//
// # Assertions
//
// In check.go, in each state: at most the permitted valid holders; each caller believes what the
// core says; no owner waits for itself; each due tenure has an agent, and each time a timer. With
// each grant: no other client has holders that were not reported as lost; no tenure is granted the
// lock twice; fencing tokens rise; no guarded write is executed in a later hold than its own; the
// order of a strict lock is kept, also after a stall; a join is never answered that its ticket is
// nowhere.
//
// With each tick, what must not last, or not for long (lasting.go): no tenure is left for which
// nothing will ever be sent; without a fault each client knows of its grants, and no call that may
// have the lock waits for a look; with a fault it gives back what it hears of, and learns of a
// grant within a lease; no lock is free for more than three ticks while a caller waits; none goes
// unused while a caller waits; an attempt is not refused since dead clients wait, nor by a tenure
// that its own client releases; a caller that leaves costs its client no position in the queue; no
// client, and no foreign one, is passed in more than a number of ticks, nor a reader kept waiting
// while foreign readers read; a lock that stays is kept until its time; two that hold the lock
// after Redis has lost it learn of it within a lease. Once all is released nothing is left in
// Redis. With Steady, no single fault ends a hold.
//
// A call that has its outcome is woken. An Unlock does not report a loss if a Leave has found the
// tenure, unless the Leave ran twice. No slot leaks. A lock of which nothing is left is idle.
//
// Hard states are counted by name (trace.go), and the gate fails if one is never reached. Broken
// rules are edits of the text of core, and of one rule of the scripts' model, in testdata, with
// which the explorer is compiled once more (breaks_test.go).
//
// What only a script decides is not checked here, but compared with scripts that break it (package
// wire): that a waiter that died while it waited costs no claim, and that a window of foreign
// clients that comes up begins.
package explore
