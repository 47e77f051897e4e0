// Package proxy is a TCP proxy for the loopback that plays a network: it adds a
// round-trip time without limiting throughput, and it can hold everything back
// or cut its connections. It knows nothing of what it carries.
//
//	p, err := proxy.Listen("127.0.0.1:6379", 500*time.Microsecond)
//	... connect to p.Addr() instead ...
//
// # What it promises
//
// Each byte arrives half the round-trip time after it was sent, or later, and in
// order. Any number of bytes may be under way: a sender is never slowed down by
// the delay, only by memory. (A proxy that sleeps between a read and a write, as
// toxiproxy's latency toxic did, lets one chunk through per delay.)
//
//	client --> read, stamp with now + RTT/2 --> queue --> wait until due --> server
//	       <-- wait until due <-- queue <-- read, stamp with now + RTT/2 <--
//
// The delay is on top of what the proxy itself costs, two more socket hops. A
// Go timer would not do for it: an idle Go program waits in epoll, which counts
// in milliseconds, so that a sleep of 250 microseconds takes one millisecond.
// On Linux the wait is a timerfd, which wakes the runtime through the same epoll
// when it is due. The accuracy that is left is measured by BenchmarkRoundTrip.
//
// # What happens on failure
//
// When one side closes its connection, what was under way to the other side is
// still delivered on time, and then that connection is closed too. When the
// target cannot be reached, the client's connection is closed at once, as it
// would find out one round trip later.
package proxy
