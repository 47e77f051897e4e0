//go:build !linux

package proxy

// An alarm sleeps as well as Go's timers do, which may be a millisecond late.
type alarm = sleeper

func newAlarm() *alarm { return newSleeper() }
