// Package survey finds the locks of a server, and inspects many of them at the same time.
//
// The names and the inspections are of different moments: a lock may be released or change hands in
// between.
package survey
