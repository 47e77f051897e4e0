package rlock

import "github.com/go-rlock/rlock/rlock/internal/client"

// GoroutineID and PrintedGoroutineID are the two ways to know the calling goroutine.
var (
	GoroutineID        = client.GoroutineID
	PrintedGoroutineID = client.PrintedGoroutineID
)
