package core

import "github.com/go-rlock/rlock/internal/enum"

// The names of the states, for messages and traces: those of the constants. One that is none is named by its number, as "Op(12)",
// and no switch goes on with it.

func (w Want) String() string  { return enum.Name(w, "Want", "Gone", "Asked", "Held", "Parted") }
func (p Place) String() string { return enum.Name(p, "Place", "Out", "Unsure", "InQueue", "Owner") }
func (m Mode) String() string  { return enum.Name(m, "Mode", "Alone", "Shared") }

func (o Op) String() string {
	return enum.Name(o, "Op", "None", "Acquire", "Resume", "Join", "Look", "Mirror", "Leave", "Step", "Unmark", "Write")
}

func (f Fault) String() string {
	return enum.Name(f, "Fault", "Answered", "NotRun", "Unknown", "Fatal", "Behind")
}

func (f Found) String() string { return enum.Name(f, "Found", "Nowhere", "Waits", "First", "Holds") }

func (m MessageKind) String() string {
	return enum.Name(m, "MessageKind", "Granted", "AtFront", "Called", "Forced", "ForeignNews", "Shown", "Satisfied")
}

func (v verdict) String() string {
	return enum.Name(v, "verdict", "holds", "waits", "free", "nowhere", "left", "absent", "granted", "executed", "notRun", "unknown", "fatal")
}

func (c change) String() string {
	return enum.Name(c, "change", "asItWas", "toOut", "toUnsure", "toInQueue", "toOwner")
}

func (n news) String() string     { return enum.Name(n, "news", "noNews", "doubt", "grant") }
func (q question) String() string { return enum.Name(q, "question", "asksNot", "asks", "opens") }

func (p Purpose) String() string {
	return enum.Name(p, "Purpose", "Locks", "Releases", "Tends", "Writes", "Forces")
}

func (t Todo) String() string { return enum.Name(t, "Todo", "Returns", "Sleeps", "Queues", "Sends") }

func (a attempt) String() string {
	return enum.Name(a, "attempt", "tried", "tries", "calls", "triesAgain", "triedAgain")
}

func (o Outcome) String() string {
	return enum.Name(o, "Outcome", "Waiting", "Acquired", "Denied", "TimedOut", "Full", "Cancelled", "Closed", "Upgrades", "Failed", "GotAnswer", "NotPassed", "Done")
}

func (w Way) String() string {
	return enum.Name(w, "Way", "ByRedis", "ByQueue", "ByNesting", "ByHandoff", "ByJoining", "ByLinger", "ByPass")
}

func (c Cause) String() string {
	return enum.Name(c, "Cause", "ByUnlock", "LeaseEnded", "TooLong", "Unrenewed", "KeyGone", "ByForce", "ByClose", "Unconfirmed")
}

func (e Extension) String() string {
	return enum.Name(e, "Extension", "EndMoves", "EndAsked", "NoEnd", "NoLevel")
}

func (r PartResult) String() string {
	return enum.Name(r, "PartResult", "HasParted", "NotYet", "NotAlone", "WouldRenew", "NothingHeld")
}

func (e EffectKind) String() string {
	return enum.Name(e, "EffectKind", "Wake", "Poll", "Ended", "Lose", "Subscribe", "Unsubscribe", "ListenAbroad", "IgnoreAbroad")
}

func (h hearing) String() string {
	return enum.Name(h, "hearing", "deaf", "asking", "listening", "refused")
}

func (a abroadNews) String() string {
	return enum.Name(a, "abroadNews", "noneAbroad", "heard", "silent")
}
