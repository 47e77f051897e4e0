// Package examples is a set of programs, one folder each. They need no server:
// they start an embedded one. With REDIS_ADDR set to the address
// of a standalone Redis or Valkey they use that instead, and touch only keys
// that begin with "example:". README.md has a table of them:
//
//	go run ./examples/quickstart   a lock, a nested one, a crowd, and a holder that is killed
//	go run -C examples/fenced .    a holder stands still, goes on, and writes: a SQL table refuses its stale token
//
// Those that are run with -C are modules of their own, since they have further
// dependencies. Fenced locks leave the counters of their tokens in Redis; the example
// deletes its own.
//
// Each checks what it claims, and exits with a status other than 0 if it fails. The
// tests run them all.
package examples
