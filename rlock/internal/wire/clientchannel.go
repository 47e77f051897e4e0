package wire

import "strings"

// A ClientMessage is what a client is told on its own channel: "<verb> <owner> <text>". The
// owner's text has no space, and what follows may be any bytes. Anybody may publish there, so
// that a message may be untrue: it is a reason to ask Redis, and no proof of anything.
type ClientMessage struct {
	Verb  Verb
	Owner string // "<uuid>:<id>": a tenure of the client that is told, or a question
	Text  string // the lock's name; for questions and answers see clientanswer.go
}

// A Verb is what a message on a client's own channel is for.
type Verb string

const (
	// Forced says that the tenure was released by somebody else, by force.
	Forced Verb = "f"
	// Wanted says that somebody waits for a tenure that may linger: see scripts/queue.lua.
	Wanted Verb = "w"
	// Asks wants to know what the client holds and waits for. The owner is that of no tenure,
	// but names the question: its UUID begins with the id of the client that asks, and is
	// different for each question.
	Asks Verb = "q"
	// Answers is the answer to the question that the owner names.
	Answers Verb = "a"
)

// String writes the message as it is published.
func (m ClientMessage) String() string { return string(m.Verb) + " " + m.Owner + " " + m.Text }

// ParseClientMessage reads a message on the client's own channel.
func ParseClientMessage(message string) (m ClientMessage, ok bool) {
	verb, rest, _ := strings.Cut(message, " ")
	owner, text, ok := strings.Cut(rest, " ")
	if !ok || verb == "" || len(owner) < TenureLen || text == "" {
		return ClientMessage{}, false
	}
	return ClientMessage{Verb: Verb(verb), Owner: owner, Text: text}, true
}
