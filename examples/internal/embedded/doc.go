// Package embedded gives the examples a Redis without anything to install: an
// in-memory one (miniredis) inside the program, or the server that REDIS_ADDR
// names.
//
// The in-memory one listens on a port of the loopback interface, so that a
// second process can join in: quickstart starts one, and kills it. Its clock
// runs, so that leases end. It ends with the program, and what it held is gone.
package embedded
