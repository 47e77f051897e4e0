// Package examples has one folder for each example; README.md has a table of them. Quickstart is a program, which checks
// what it claims, and exits with a status other than 0 if it fails; the tests of the others are their stories. None needs
// a server: with REDIS_ADDR set to the address of a standalone Redis or Valkey quickstart uses that one, and touches only
// keys that begin with "example:".
//
//	go run ./examples/quickstart
//	go test ./examples/handler
//	go test -C examples/fenced .    a module of its own, for its database
package examples
