// Package examples is a set of programs, one folder each. They need no server:
// they start an embedded one. With REDIS_ADDR set to the address
// of a standalone Redis or Valkey they use that instead, and touch only keys
// that begin with "example:".
//
//	go run ./examples/quickstart   a lock, a nested one, a crowd, and a holder that is killed
//	go run ./examples/gear         two machines rewrite one list: without the lock an update is lost
//	go run ./examples/balance      a holder is stopped, wakes, and writes: Redis refuses its guarded write
//	go run ./examples/flashsale    1 000 buyers, 100 items: no lock, a lock, a script, and guarded writes
//	go run ./examples/longwork     work that outlasts its lease, with the watchdog and without
//	go run ./examples/nested       methods that lock what their caller has locked, across goroutines too
//	go run -C examples/fenced .    a holder is stopped, wakes, and writes: a SQL table refuses its stale token
//	go run ./examples/migrate      each call of Redisson's RLock beside the Go that replaces it
//	go run ./examples/tick         a job that runs once per tick on one of five replicas
//	go run ./examples/leader       a leader that works until it loses the lock
//	go run ./examples/handler      an HTTP handler with a limit on the wait: 200, 409, 500
//	go run ./examples/sticky       a lock for each user, which lingers at the replica that serves the user
//	go run ./examples/ratelimited  forty workers and ten connections to a partner: a semaphore
//	go run ./examples/shutdown     a process that ends and leaves no lock behind
//	go run -C examples/gocron .    a drop-in for the Locker and the Elector of gocron
//	go run -C examples/observed .  a fleet whose locks are measured by OpenTelemetry
//
// Those that are run with -C are modules of their own, since they have further
// dependencies. Fenced locks leave the counters of their tokens in Redis; the example
// deletes its own.
//
// Each checks what it claims, and exits with a status other than 0 if it fails. The
// tests run them all.
package examples
