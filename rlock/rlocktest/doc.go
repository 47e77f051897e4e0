// Package rlocktest is for the tests of programs that use rlock: clients of a Redis in memory,
// losses and faults on demand, and assertions about the holders of locks.
//
//	func TestALeaderStopsWhenItLosesTheLock(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) { // virtual time; the kit works without it, too
//			server := rlocktest.NewServer(t)
//			client := server.Client() // a *rlock.Client
//			ended := make(chan error)
//			go func() { ended <- lead(t.Context(), client) }()
//			server.AssertHeld("leader", client)
//			server.Lose("leader")
//			if err := <-ended; !errors.Is(err, rlock.ErrLost) {
//				t.Errorf("it ended with %v", err)
//			}
//			server.AssertNothingHeld()
//		})
//	}
//
// [New] is the short form for a test with one client and no faults. docs/testing.md names whole
// tests, and what to know.
//
// # Clients and server
//
// The clients are as in production, with their watchdog, queue and leases, and no fakes: a Hold
// that is not made by Acquire panics. The server is miniredis with its clock switched on, since
// without it no lease ends. Clients reach it over pipes, each by a network of its own, which can
// fail. Nothing listens on a port, and everything ends with the test.
//
//	server.Client() ---- network ----+
//	server.Client() ---- network ----+---- server (miniredis)
//	server.Options() ----------------+
//
// # Time
//
// In a testing/synctest bubble time is virtual: ten minutes of a lease pass at once when all
// goroutines of the test wait. Make the server inside the bubble. A connection by TCP has no place
// there: a goroutine that reads from one does not count as waiting, so that time stands still and
// the test hangs. Call an HTTP handler with httptest.NewRecorder and not over httptest.NewServer,
// and give another Redis library a dialer that calls Miniredis().Dial: docs/testing.md has that for
// go-redis.
//
// In a bubble [testing/synctest.Wait] returns when nothing is under way: after it a goroutine that
// has called Lock waits for the lock, if that is held.
//
// Outside of a bubble leases take their time, and a test that must see one end makes its client
// with a short one: at least 100 ms. Everything else is immediate.
//
// A lock that is held for a day of virtual time is renewed 8640 times, each time by a script, and
// miniredis takes seconds for that. A longer Config.Lease makes renewals rarer. Clients ping an
// idle connection every 30 s instead of every second, and so notice later that an idle network is
// silent.
//
// # Losses and faults
//
//	Lose       the lock is gone: an operator, an eviction, a failover, the end of a dead client's lease
//	Steal      another client holds the lock
//	Refuse     the server answers commands with an error
//	Cut        the connections of a client break, and no other can be opened
//	Silence    nothing arrives any more, and no connection ends
//	Heal       these faults are over
//	Kill       a client is silent for ever, and its locks end with their leases
//
// After Lose and Steal the holder notices at once. A change to the server behind the kit's back, as
// by FastForward of miniredis, is noticed at the next renewal: up to ten seconds later.
//
// # Limits
//
// The server is single: there is no Sentinel, no Cluster and no replica
// ([rlock.Config].SyncReplicas is never met). For a RedLock make several servers. The server and
// the clients have one clock.
package rlocktest
