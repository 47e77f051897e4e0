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
// Each direction is first in, first out: a held message keeps back everything behind it, as
// in TCP. Bytes that a client wrote before it closed its connection still reach the server,
// even long after: so a command may be executed after its caller has given up.
//
// The network parses RESP as far as it needs to find the ends of commands, replies and pushed
// messages, and the command that a reply answers (in RESP3; in RESP2 it takes the messages of a
// subscription for replies). A message is passed on when its end has come; without a rule the bytes
// of one read are written at once. Parsing costs 0.15 microseconds a script, which is not
// noticeable beside the 10 of two more sockets. Other protocols, such as TLS, are carried as they
// come: to a rule they are frames without a name.
//
// # Far away
//
// With [Network.SetRoundTrip] each byte arrives half the round-trip time after it
// was sent, or later. A sender is never slowed down by the delay, only by memory.
// (A proxy that sleeps between a read and a write, as toxiproxy's latency toxic
// did, lets one chunk through per delay.)
//
// A Go timer is not exact enough: an idle Go program waits in epoll, which counts in
// milliseconds, so that a sleep of 250 microseconds takes one millisecond. On Linux a network
// that listens waits by a timerfd, which wakes the runtime through the same epoll when it is
// due. A network that is dialled uses Go's clock, which in a testing/synctest bubble is
// exact.
//
// # Failures
//
// When one side closes its connection, the bytes under way to the other side are still
// delivered, on time and by the rule, and then that connection is closed too. When the server
// cannot be reached a dial returns the error; a client that has connected by TCP finds its
// connection closed.
package network
