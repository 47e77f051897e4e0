package rlock

import "github.com/go-rlock/rlock/rlock/internal/terms"

// GoroutineID and PrintedGoroutineID are the two ways to know the calling goroutine.
var (
	GoroutineID        = terms.GoroutineID
	PrintedGoroutineID = terms.PrintedGoroutineID
)
