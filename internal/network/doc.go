// Package network is a network that is far away, or fails on purpose, for tests
// and benchmarks: connections between clients and one Redis server, on which
// single commands, replies and messages are held, dropped, replaced, or cut off
// with their connection.
//
// It stands between a client of the same process and its server,
//
//	n := network.New(dial)              // dial leads to the server
//	option.DialCtxFn = n.Dial           // of a rueidis.ClientOption
//
// or, on a port of its own, between any processes and theirs:
//
//	n, err := network.Listen("127.0.0.1:6379")
//	... connect to n.Addr() instead ...
//
// Then, in both cases,
//
//	n.Rule(network.Nth(2, network.Cut, network.Reply, "EVALSHA"))
//
// ends the connection in place of the second reply to an EVALSHA: the server has
// executed it, and the client does not know.
//
// # The way of a message
//
//	          +------------------- a connection -------------------+
//	client -> | read -> queue, unbounded -> due? -> rule -> write  | -> server
//	       <- | write <- rule <- due? <- queue, unbounded <- read  | <-
//	          +----------------------------------------------------+
//
// Each direction is first in, first out: what is held keeps back everything
// behind it, as TCP does. What a client wrote before it closed its connection
// still reaches the server, also long after: that is how a command whose caller
// has given up comes to be executed.
//
// The network understands as much of RESP as it needs to tell where a command, a
// reply and a pushed message end, and which command a reply answers (in RESP3; in
// RESP2 it takes the messages of a subscription for replies). A message is passed
// on when its end has come; without a rule all that came with one read is written
// at once. To know the borders costs 0.15 microseconds a script
// (BenchmarkPipeline), which beside the 10 of two more sockets does not show
// (BenchmarkRoundTrip). What is not RESP, as TLS, is carried as it comes: for a
// rule it is made of frames without a name.
//
// # Far away
//
// With [Network.SetRoundTrip] each byte arrives half the round-trip time after it
// was sent, or later. A sender is never slowed down by the delay, only by memory.
// (A proxy that sleeps between a read and a write, as toxiproxy's latency toxic
// did, lets one chunk through per delay.)
//
// A Go timer would not do for it: an idle Go program waits in epoll, which counts
// in milliseconds, so that a sleep of 250 microseconds takes one millisecond. On
// Linux a network that listens waits by a timerfd, which wakes the runtime through
// the same epoll when it is due. One that is dialled uses Go's clock, which in a
// testing/synctest bubble is exact.
//
// # What happens on failure
//
// When one side closes its connection, what was under way to the other side is
// still delivered, on time and by the rule, and then that connection is closed
// too. When the server cannot be reached a dial returns the error; a client that
// has connected by TCP finds its connection closed.
package network
