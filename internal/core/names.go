package core

// The names of the states, for messages and traces. A value that has none is a defect, and panics.

func (w Want) String() string { return [...]string{"Gone", "Asked", "Held", "Parted"}[w] }

func (p Place) String() string { return [...]string{"Out", "Unsure", "InQueue", "Owner"}[p] }

func (o Op) String() string {
	return [...]string{"None", "Acquire", "Resume", "Join", "Look", "Mirror", "Leave", "Step", "Unmark", "Write"}[o]
}

func (v verdict) String() string {
	return [...]string{"holds", "waits", "free", "nowhere", "left", "absent", "granted", "executed", "notRun", "unknown", "fatal"}[v]
}

func (a attempt) String() string {
	return [...]string{"tried", "tries", "calls", "triesAgain", "triedAgain"}[a]
}

func (f Fault) String() string {
	return [...]string{"Answered", "NotRun", "Unknown", "Fatal", "Behind"}[f]
}

func (p Purpose) String() string {
	return [...]string{"Locks", "Releases", "Tends", "Writes", "Forces"}[p]
}

func (o Outcome) String() string {
	return [...]string{"Waiting", "Acquired", "Denied", "TimedOut", "Full", "Cancelled", "Closed", "Upgrades", "Failed", "GotAnswer", "NotPassed", "Done"}[o]
}

func (c Cause) String() string {
	return [...]string{"ByUnlock", "LeaseEnded", "TooLong", "Unrenewed", "KeyGone", "ByForce", "ByClose", "Unconfirmed"}[c]
}
