// Package programs makes random programs over the whole face of rlock, once, idempotent, redisson
// and elect, and judges them.
//
//	p := programs.Generate(seed)              // a Program: data, which can be printed
//	r := programs.Execute(p, ground, face)    // its clients, lanes and faults, on a Ground: some servers
//	problems := r.Problems()                  // by what callers saw, and what Redis has in the end
//	p = programs.Shrink(p, tries, fails)      // fewer operations that still fail
//
// It has three stages: virtual time on embedded servers, real time on real ones (both in
// rlock/tests/programs), and processes that are stopped and killed, with all else that torture
// breaks: a [Process] in each draws operations without end.
//
// # A program
//
// A program has a [World] (servers, clients and their settings), [Lane]s, which are goroutines of
// the clients, and faults. A lane is a list of operations, one after the other. An [Op] says by
// numbers all that it does: its lock, its options, the context of the call, the steps while the
// lock is held, and how the hold ends. So an operation does the same if others are left out, and a
// program is named by its seed and the operations that are kept.
//
// Each sort of operation is a row of a table: how it is drawn, and how it is run. To test another
// method, add a row; to delete one, delete its row. [Face] counts the calls; the tests compare them
// with the exported names of the source.
//
// # The judge
//
// Callers note each call twice, before it and after, in a history, which package checker judges:
// exclusion, permits, counts, tokens, losses, waits for a lock that is free, calls that are refused
// one. The rest is judged here, by what callers saw:
//
//	calls       each error is one that the function documents, in that situation; waits are bounded;
//	            no level has more of the lock than the hold in which it nests
//	holds       MaxHold and leases are not longer, contexts end with the hold; Redis shows it for as
//	            long as it is valid, and so do Held and Inspect; a pass is resumed
//	takeovers   a hold is taken over by another owner's call, after its grace, which has the lock next
//	writes      the guarded writes of a hold stand in one run
//	observer    each call has one Waiting and one end, and each hold one end; their events are right
//	stats       agree with the observer, and are zero at the end
//	once        no value that was stored before its caller asked; no function runs twice for one caller
//	idempotent  one response for a key
//	redisson    the numbers of permits and of latches are exact, but for calls without an answer;
//	            while nothing breaks a model has each result, the keys and the messages
//	end         each lock can be had at once; Close is in time, and contexts are over after it; no
//	            key is left but those that stay
package programs
