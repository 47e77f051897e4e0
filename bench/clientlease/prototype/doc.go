// Package prototype is the smallest lock whose expiry follows from a client lease: what
// docs/client-leases.md describes, in three scripts, to be measured and to be broken. It is
// no lock to use: it has no queue, no nesting and no hand-offs.
//
// # The protocol
//
// A [Client] has one key in Redis, its client lease, and renews it by one PEXPIRE. A lock is
// acquired with a lease of its own, as every lock of rlock. When that would be renewed for
// the first time, the lock is attached instead ([Client.Attach]): from then on it lives as
// long as the client lease, and its own key expires at the backstop, which is much later.
//
//	               Attach                       client lease over, an acquire comes
//	own lease ----------------> attached ------------------------------------------> taken
//	    |                          |
//	    | lease over               | backstop over, no acquire came
//	    v                          v
//	   free                       free
//
// # Promises that hold
//
//   - A client lease that has ended does not come back: it is renewed by PEXPIRE, which makes
//     no key, and the next one has another name. So a lock that others may take is never
//     attached again by a renewal that comes late.
//   - A lock is believed until the end of its own lease, or of the client lease if it is
//     attached, by the rules of package lease: counted from before the command was sent.
//     While an attach has no answer, until the earlier of the two.
//   - An acquire whose answer is lost costs others one lease, not the life of the client,
//     since a lock is attached only by a client that knows that it has it.
//
// # Promises that do not
//
// If the key of the client lease is deleted or evicted, all its locks are lost at once. If
// the key of an attached lock is, nothing tells its holder before the backstop is renewed.
package prototype
