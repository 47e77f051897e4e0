// Package diag tells people about the locks of a client: which owners hold which locks, which calls wait, for how long
// and from where, and where calls wait for each other. It reads the locks by a [Source], and changes nothing.
//
//	Source ──► Uses ──► Held
//	            ├─────► answers to what other clients ask     asking.go
//	            └─────► cycles of waits                       deadlock.go
//	         watch ───► waits and holds that last             watch.go
//
// A look at all locks costs a client time, and other clients may cause one: so it takes as long as there are locks and
// calls, holds no mutex for long, and is followed by a pause that is ten times as long.
package diag
