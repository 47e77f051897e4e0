// Package waitgraph finds deadlocks: cycles of owners each of which waits for a lock that the
// next one holds.
//
// Its input is holds and waits of any source: a client has them in its memory, the command
// rlock reads them from Redis and from the answers of clients. A cycle is as reliable as its
// input. If holds and waits were collected one after the other, collect them twice: a cycle
// of the same holds and waits in both existed in between.
package waitgraph
