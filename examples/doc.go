// Package examples is a set of programs, one folder each; README.md has a table of them. They need
// no server: they start an embedded one. With REDIS_ADDR set to the address of a standalone Redis or
// Valkey they use that server, and touch only keys that begin with "example:".
//
//	go run ./examples/quickstart
//	go run ./examples/gear
//	go run -C examples/fenced .    a module of its own, for its database
//
// Each checks what it claims, and exits with a status other than 0 if it fails. The tests run all.
package examples
