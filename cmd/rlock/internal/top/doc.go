// Package top watches the locks of a server: their holders, their waiters, and how often they
// change hands.
//
// A [Watcher] looks at Redis again and again, and compares each look with those before. It
// knows only the state in Redis:
//
//   - SEEN is how long all looks have shown the same tenure of a holder: the lock is held for
//     that time at least. Each tenure of a client of rlock has a UUID of its own. A thread of
//     Redisson has the same text in each.
//   - NEW/S is how many holders a second were there at a look and not at the one before, in
//     the mean of the last looks. That is a lower bound: what is taken and released between
//     two looks leaves no trace, nor does a lock that goes from one goroutine to the next
//     inside a process.
//   - Losses are not shown. In Redis a lease that ends looks like one that was released.
//
// The work of a look is bounded: a limited number of locks is inspected, those with waiters
// first and then those with the oldest inspection, and the look tells how many are left out.
// A look that fails has an error; the next may succeed.
//
// [Model] is the screen of a terminal, for Bubble Tea. [WritePlain] and [WriteJSON] write a
// look for a pipe.
package top
