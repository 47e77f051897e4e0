// Package quorum makes one lock of several: all of them for a multi-lock, most of them for a
// red lock. It is nothing in Redis itself, and uses only what package engine says of a lock
// ([engine.Form]) and of a hold ([engine.Handle]): so its parts may be locks of any kind, of
// any client, and made of locks themselves.
//
//	compound ──► gather: one after the other, in one order for all (multi.go)
//	    │            or a campaign for the majority (red.go, campaign.go)
//	    └──────► hold: a hold of each part (hold.go)
//
// # Validity and loss
//
// The whole is valid as long as enough of its parts are, each judged by its own client and
// by the clock. A part that ends by loss tells the whole. Once too few are left the whole is
// lost, its context ends, and the parts that are left are released, since they protect
// nothing.
//
//	gathering --enough--> held --Release--> over
//	    |                  |
//	    | refused          +--too few parts left--> over, with a cause
//	    v
//	  over: what was taken is given back
package quorum
