// Package monitor tells people about the locks of a client: which owners hold which locks, and
// which holds and waits last too long. It reads the locks by a [Source], and changes nothing.
//
//	Source ──► Uses           the holds and the waits         uses.go
//	       └─► watch ──► log  waits and holds that last        watch.go
//
// A look at all locks takes time. So it holds no mutex for long, and the pause after it is ten
// times as long as the look.
package monitor
