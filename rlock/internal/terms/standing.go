package terms

// Standing is an rlock.AcquireOption of package elect, set by package rlock: the call waits for long by design, as a
// standby does, and that is not logged.
var Standing any
