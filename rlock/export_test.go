package rlock

import "github.com/go-rlock/rlock/rlock/internal/engine"

// GoroutineID and PrintedGoroutineID are the two ways to know the calling goroutine.
var (
	GoroutineID        = engine.GoroutineID
	PrintedGoroutineID = engine.PrintedGoroutineID
)
