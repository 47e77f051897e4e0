package wire

import "strings"

// A ClientMessage is what a client is told on its own channel about one of its tenures:
// "<verb> <owner> <lock>". The owner's text has no space, the name may be any bytes. Anybody
// may publish there, so that a message may be untrue: it is a reason to ask Redis, and no
// proof of anything.
type ClientMessage struct {
	Verb  Verb
	Owner string // "<uuid>:<id>", of a tenure of the client that is told
	Lock  string // the lock's name
}

// A Verb is what a message on a client's own channel is for.
type Verb string

const (
	// Forced says that the tenure was released by somebody else, by force.
	Forced Verb = "f"
	// Wanted says that somebody waits for a tenure that may linger: see scripts/queue.lua.
	Wanted Verb = "w"
)

// String writes the message as it is published.
func (m ClientMessage) String() string { return string(m.Verb) + " " + m.Owner + " " + m.Lock }

// ParseClientMessage reads a message on the client's own channel.
func ParseClientMessage(message string) (m ClientMessage, ok bool) {
	verb, rest, _ := strings.Cut(message, " ")
	owner, lock, ok := strings.Cut(rest, " ")
	if !ok || verb == "" || len(owner) < TenureLen || lock == "" {
		return ClientMessage{}, false
	}
	return ClientMessage{Verb: Verb(verb), Owner: owner, Lock: lock}, true
}
