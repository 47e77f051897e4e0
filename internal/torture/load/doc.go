// Package load puts much load on the lock while nothing is broken: a crowd that waits for one
// lock, waiters for each of many locks, and many processes for a long time. It measures
// whether all are served, and whether memory and goroutines stay constant.
package load
