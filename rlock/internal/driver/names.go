package driver

import "github.com/go-rlock/rlock/internal/enum"

// The names of the states, for panics and tests.

func (s sender) String() string { return enum.Name(s, "sender", "unasked", "nudged", "keeperSends") }

func (s stage) String() string {
	return enum.Name(s, "stage", "running", "flying", "asleep", "queueing", "waking", "serving")
}

func (w wakeUp) String() string { return enum.Name(w, "wakeUp", "looks", "served") }

func (f writeFate) String() string {
	return enum.Name(f, "writeFate", "writeUnknown", "writeRan", "writeFenced", "writeRefused")
}

func (t tracking) String() string {
	return enum.Name(t, "tracking", "untracked", "putOff", "due", "tracked", "alarmed", "verified")
}
