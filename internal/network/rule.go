package network

import (
	"strings"
	"time"
)

// A Stage is where on its way a frame is.
type Stage int

const (
	Request Stage = iota // a command, before it reaches the server
	Reply                // the answer to a command, before it reaches the client
	Push                 // a message or a confirmation of a subscription, likewise
)

// A Frame is one thing that a rule decides about.
type Frame struct {
	Stage Stage
	// Args are those of the command; for a Push the strings that it consists of.
	Args []string
	// Time is when it was let through to the server, in [Network.Sent] only.
	Time time.Time
}

// Is reports whether the command has that name, in whatever case.
func (f Frame) Is(name string) bool {
	return len(f.Args) > 0 && strings.EqualFold(f.Args[0], name)
}

// A Fate is what becomes of a frame.
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
	Pass = Fate{kind: pass} // it goes on
	Hold = Fate{kind: hold} // it waits for [Network.Deliver], and all behind it too
	Drop = Fate{kind: drop} // it alone vanishes: right for a Push, else the client waits for ever or takes the next reply for it
	Cut  = Fate{kind: cut}  // its connection ends in place of it
)

// Replace is the fate of a frame in whose place these bytes are sent.
func Replace(raw string) Fate { return Fate{kind: replace, text: raw} }

// A Rule decides about a frame when its turn has come. It is called with the
// network's mutex held, one call after the other, so it may count; it must not
// call the network.
type Rule func(Frame) Fate

// All returns a rule that deals alike with everything of a stage whose command
// has one of the names; without names, with everything of the stage.
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

// Silence is a rule that holds everything: a network that lost its route.
func Silence(Frame) Fate { return Hold }

// Deaf is a rule that drops all messages, and no confirmation of a subscription.
func Deaf(f Frame) Fate {
	if f.Stage == Push && (f.Is("message") || f.Is("smessage") || f.Is("pmessage")) {
		return Drop
	}
	return Pass
}
