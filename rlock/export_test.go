package rlock

// GoroutineID and PrintedGoroutineID are the two ways to know the calling goroutine.
var (
	GoroutineID        = goroutineID
	PrintedGoroutineID = printedGoroutineID
)
