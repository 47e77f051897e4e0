// Package core has the state machines of one lock as one client knows it. It starts no goroutine, reads no clock, takes
// no mutex and sends nothing: events go in, and effects come out.
package core
