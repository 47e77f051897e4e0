// Package load puts much on the lock while nothing is broken: a crowd that waits
// for one lock, waiters for each of many locks, and many processes for a long time. It
// measures whether all are served, and whether memory and goroutines stay what
// they were.
package load
