//go:build !linux

package network

// An alarm sleeps as well as Go's timers do, which may be a millisecond late.
type alarm = sleeper

func newAlarm(bool) *alarm { return newSleeper() }
