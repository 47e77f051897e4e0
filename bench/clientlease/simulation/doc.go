// Package simulation computes the cost of leases in a fleet that is too large to run: 1 000
// clients, 50 servers, 10^5 to 10^8 held locks. It has two parts, both deterministic: the same seed
// gives the same figures.
//
//   - [Fleet.Steady] counts commands. It deals the locks of each client out over the 16 384
//     slots, since what shares a command depends on how many of a client's locks share a
//     slot, and prices the commands with what package cost has measured.
//   - [Crash.Run] lets one client die, event by event, and follows its locks: when each is
//     free, when a waiter has it, and what the server does for that.
//
// Nothing else is simulated: no contention, no acquires and releases of the other clients,
// and no network.
package simulation
