package wire

import "strings"

// A ClientMessage is a message on a client's own channel: "<verb> <owner> <text>". The owner
// contains no space, the text may be any bytes. Other users may publish there, so a message
// proves nothing: it is a reason to ask Redis.
type ClientMessage struct {
	Verb  Verb
	Owner string // "<uuid>:<id>": a tenure of the client that is notified
	Text  string // the lock's name
}

// A Verb is the purpose of a message on a client's own channel.
type Verb string

const (
	// Forced says that another client released the tenure by force.
	Forced Verb = "f"
	// Shown says that the tenure has a lock that another client waits for. The text is the sort of
	// the lock and its name: see scripts/queue.lua.
	Shown Verb = "h"
)

// String writes the message as it is published.
func (m ClientMessage) String() string { return string(m.Verb) + " " + m.Owner + " " + m.Text }

// isKnown reports whether there is such a message. A verb that is not known is of a later version.
func (v Verb) isKnown() bool {
	return v == Forced || v == Shown
}

// ParseClientMessage reads a message on the client's own channel. It reports false for one that is of a later version.
func ParseClientMessage(message string) (m ClientMessage, ok bool) {
	verb, rest, _ := strings.Cut(message, " ")
	owner, text, ok := strings.Cut(rest, " ")
	if !ok || !Verb(verb).isKnown() || len(owner) < TenureLen || text == "" {
		return ClientMessage{}, false
	}
	return ClientMessage{Verb: Verb(verb), Owner: owner, Text: text}, true
}
