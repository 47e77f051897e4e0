// Package sim is a fleet of clients as a discrete-event simulation: the code of package core, a shard of Redis behind each
// name, and a network between them. It starts no goroutine and reads no clock, and the same seed gives the same figures.
//
// # Real parts and models
//
//   - A client is the state machines of package core. What package driver does beside them (who polls a tenure, which timer
//     wakes it, how long a subscription lasts) is in client.go and caller.go.
//   - A lock in Redis is package bench/fleet/server, whose answers are those of the explorer's model.
//   - A shard (shard.go) executes one command after the other. Each takes the time that package cost has measured.
//   - A network (network.go) delays each way, and keeps the order of each connection.
//   - A caller (caller.go) thinks, locks, holds, and unlocks, again and again. One that polls (poller.go) does the same by
//     SET NX PX and retries, as the baseline.
//   - Clients stall (stall.go): nothing happens in them for a while, as in a garbage collection or a throttled container.
//   - A shard fails over (failover.go): it stops, and a replica takes over that lacks the latest commands.
//
// Left out: the processor time of clients, but for Fleet.Overhead; the keeper's batches and its wheel; the back-off of
// locks that linger and are called too often; foreign clients; reads.
package sim
