package network

import (
	"strings"
	"time"
)

// A Stage is the place of a frame on its way.
type Stage int

const (
	Request Stage = iota // a command, before it reaches the server
	Reply                // the answer to a command, before it reaches the client
	Push                 // a message or a confirmation of a subscription, likewise
)

// A Frame is the unit that a rule decides about.
type Frame struct {
	Stage Stage
	// Args are the arguments of the command; of a Push its strings.
	Args []string
	// Time is when the frame was passed on to the server, in [Network.Sent] only.
	Time time.Time
}

// Is reports whether the command has that name, ignoring case.
func (f Frame) Is(name string) bool {
	return len(f.Args) > 0 && strings.EqualFold(f.Args[0], name)
}

// A Fate is the decision about a frame.
type Fate struct {
	kind fate
	text string // of a replacement
}

type fate int

const (
	pass fate = iota
	hold
	drop
	cut
	replace
)

var (
	Pass = Fate{kind: pass} // the frame goes on
	Hold = Fate{kind: hold} // the frame waits for [Network.Deliver], and so do all frames behind it
	Drop = Fate{kind: drop} // the frame alone is lost: use it for a Push, since a client waits for ever for a lost reply, or takes the next one for it
	Cut  = Fate{kind: cut}  // the connection ends in place of the frame
)

// Replace is the fate of a frame that is replaced by these bytes.
func Replace(raw string) Fate { return Fate{kind: replace, text: raw} }

// A Rule decides about each frame in turn. It is called with the network's mutex held, one
// call after the other, so it may count; it must not call the network.
type Rule func(Frame) Fate

// All returns a rule for every frame of a stage whose command has one of the names; without
// names, for every frame of the stage.
func All(fate Fate, stage Stage, names ...string) Rule {
	return func(f Frame) Fate {
		if f.Stage != stage {
			return Pass
		}
		for _, name := range names {
			if f.Is(name) {
				return fate
			}
		}
		if len(names) == 0 {
			return fate
		}
		return Pass
	}
}

// Nth is All for the nth such frame from now, counted from 1, and no other.
func Nth(n int, fate Fate, stage Stage, names ...string) Rule {
	all := All(fate, stage, names...)
	return func(f Frame) Fate {
		if all(f) == Pass {
			return Pass
		}
		if n--; n != 0 {
			return Pass
		}
		return fate
	}
}

// Silence is a rule that holds everything, as a network without a route.
func Silence(Frame) Fate { return Hold }

// Deaf is a rule that drops all messages, but no confirmation of a subscription.
func Deaf(f Frame) Fate {
	if f.Stage == Push && (f.Is("message") || f.Is("smessage") || f.Is("pmessage")) {
		return Drop
	}
	return Pass
}
