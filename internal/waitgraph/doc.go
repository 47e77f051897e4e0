// Package waitgraph finds deadlocks: cycles of owners each of which waits for a lock that the
// next one holds.
//
// Its input is holds and waits, wherever they come from: a client has them in its memory, the
// command rlock from Redis and from the answers of clients. A cycle is as true as these are.
// Where they were collected one after the other, collect them twice: a cycle whose holds and waits are the same both times was there in between.
package waitgraph
