// Package inmemory is a Redis in the memory of a test: miniredis, with a clock and with
// faults, for tests of locks. Package rlocktest gives it to users, and internal/redistest to
// the tests of this module.
//
//	server := inmemory.New()
//	defer server.Close()
//	client, err := rlock.New(rlock.Config{Redis: server.Options()})
//
// Clients reach it over pipes, through the DialCtxFn of [Server.Options]. It has no port,
// and works in a testing/synctest bubble if it was made there.
//
// # Time
//
// Leases end by Go's clock. By itself miniredis has no clock, and no key ever ends
// ([miniredis.Miniredis.ClockTTL]). In Redis time stands still while a script runs. In a
// bubble it does so anyway; outside of one the clock is set when a command arrives, so that a
// key does not end between two commands of a slow script.
//
// # Missing
//
// It has no sharded pub/sub, no CONFIG, ROLE or CLIENT LIST, WAIT answers 0, and a
// connection that subscribes in RESP3 refuses other commands. INFO server has a run id only, and
// HELLO without arguments a role. It answers CLUSTER SLOTS, so that a client must be told that it
// is a single server; Options does.
//
// # Scripts
//
// Scripts of an EVALSHA share a state of Lua, as in Redis ([Scripts]). Miniredis makes one for each
// script, which takes longer than the script of a lock.
//
// # Failure
//
// [Server.Refuse] has chosen commands answered with an error. [Server.Stop] ends all
// connections and refuses others until [Server.Start]; the data stay.
package inmemory
