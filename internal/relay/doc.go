// Package relay is a network that fails on purpose, for tests: connections
// between clients and one Redis server, on which single commands, replies and
// messages are held, dropped, or cut off with their connection.
//
//	network := relay.New(dial)              // dial leads to the server
//	option.DialCtxFn = network.Dial         // of a rueidis.ClientOption
//
//	network.Rule(relay.Nth(2, relay.Cut, relay.Reply, "EVALSHA"))
//
// ends the connection in place of the second reply to an EVALSHA: the server has
// executed it, and the client does not know.
//
// The relay understands as much of RESP as it needs to tell where a command, a
// reply and a pushed message end, and which command a reply answers.
//
//	          +--------------- a connection ----------------+
//	client -> | requests, unbounded -> rule -> to the server| -> server
//	       <- | to the client <- rule <- replies, unbounded | <-
//	          +---------------------------------------------+
//
// Each direction is first in, first out: what is held keeps back everything
// behind it, as TCP does. What a client wrote before it closed its connection
// still reaches the server, also long after: that is how a command whose caller
// has given up comes to be executed.
//
// It works over any net.Conn, and inside a testing/synctest bubble if dial gives
// an in-memory one.
package relay
