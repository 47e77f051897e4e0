// Package top watches the locks of a server: their holders, their waiters, and how often they
// change hands.
//
// A [Watcher] looks at Redis again and again, and compares each look with those before. It knows
// only the state in Redis:
//
//   - SEEN is the time for which all looks have shown the same tenure of a holder: the lock is
//     held for at least that time. Each tenure of a client of rlock has a UUID of its own. A
//     thread of Redisson has the same text in each.
//   - NEW/S is the number of new holders per second, as the mean of the last looks. A holder is
//     new if the look before did not show it. That is a lower bound: a lock that is taken and
//     released between two looks leaves no trace, nor does a hand-off inside a process.
//   - Losses are not shown. In Redis the end of a lease looks like a release.
//
// The work of a look is bounded: a limited number of locks is inspected, those with waiters first
// and then those with the oldest inspection, and the look counts the locks that are left out. A
// look that fails has an error, and the next look is made all the same.
//
// [Model] is the screen of a terminal, for Bubble Tea. [WritePlain] and [WriteJSON] write a look
// for a pipe.
package top
