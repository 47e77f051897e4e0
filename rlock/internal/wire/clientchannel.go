package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-rlock/rlock/rlock/inspect"
)

// A ClientMessage is a message on a client's own channel: "<verb> <owner> <text>". The owner
// contains no space, the text may be any bytes. Other users may publish there, so a message
// proves nothing: it is a reason to ask Redis.
type ClientMessage struct {
	Verb  Verb
	Owner string // "<uuid>:<id>": a tenure of the client that is notified, or a question
	Text  string // the lock's name; of a question its version, of an answer its lines
}

// A Verb is the purpose of a message on a client's own channel.
type Verb string

const (
	// Forced says that another client released the tenure by force.
	Forced Verb = "f"
	// Wanted says that another client waits for a tenure that may linger: see
	// scripts/queue.lua.
	Wanted Verb = "w"
	// Shown says that the tenure has a lock that another client waits for. The text is the sort of
	// the lock and its name: see scripts/queue.lua.
	Shown Verb = "h"
	// Asks is a question about the client's holds and waits. The owner names the question and
	// no tenure: its UUID begins with the id of the client that asks, and is different for
	// each question.
	Asks Verb = "q"
	// Answers is the answer to the question that the owner names.
	Answers Verb = "a"
)

// String writes the message as it is published.
func (m ClientMessage) String() string { return string(m.Verb) + " " + m.Owner + " " + m.Text }

// isKnown reports whether there is such a message. A verb that is not known is of a later version.
func (v Verb) isKnown() bool {
	return v == Forced || v == Wanted || v == Shown || v == Asks || v == Answers
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

// A client answers a question with lines of JSON: a head, then one line for each use. Fields may be
// added to either; a client that does not know them leaves them out.
type (
	answerHead struct {
		Version int    `json:"v"`
		Client  string `json:"client"`        // whose it is
		At      int64  `json:"at"`            // when it was made, in ms since 1970 by the client's clock
		Cut     bool   `json:"cut,omitempty"` // there are more uses than it has
	}

	answerUse struct {
		Lock      string       `json:"lock,omitempty"`
		Raw       []byte       `json:"raw,omitempty"` // the lock's name where that is no UTF-8
		Kind      inspect.Kind `json:"kind"`
		Owner     uint64       `json:"owner"`
		Goroutine uint64       `json:"goroutine,omitempty"` // that has called, if it is known
		Waits     bool         `json:"waits,omitempty"`     // for the lock; else it is held
		Since     int64        `json:"since"`               // in ms since 1970 by the client's clock
		PartOf    string       `json:"part_of,omitempty"`
		Site      answerSite   `json:"site,omitzero"`
	}

	// An answerSite is where in the code a lock was taken.
	answerSite struct {
		Function string `json:"function"`
		File     string `json:"file"`
		Line     int    `json:"line"`
	}
)

const (
	// answerVersion is the latest version of an answer that this code writes and reads.
	answerVersion = 1
	// maxAnswer is how many bytes an answer has at most, maxUses how many uses.
	maxAnswer, maxUses = 64 << 10, 500
)

var errAnswer = errors.New("it is no answer of a client")

// EncodeAnswer writes the answer of a client: as many of its uses as there is room for, from the first
// on. One that is too long for an answer is left out.
func EncodeAnswer(client string, at time.Time, uses []inspect.Use) string {
	head := answerHead{Version: answerVersion, Client: client, At: at.UnixMilli()}
	var lines bytes.Buffer
	for i, u := range uses {
		use := answerUse{
			Lock: u.Name, Kind: u.Kind, Owner: u.Owner, Goroutine: u.Goroutine, Waits: u.Waits,
			Since: u.Since.UnixMilli(), PartOf: u.PartOf, Site: answerSite(u.Site),
		}
		if !utf8.ValidString(u.Name) {
			use.Lock, use.Raw = "", []byte(u.Name)
		}
		line, err := json.Marshal(use)
		if i == maxUses || err != nil {
			head.Cut = true
			break
		}
		if lines.Len()+len(line) >= maxAnswer-headRoom {
			head.Cut = true
			continue
		}
		lines.Write(line)
		lines.WriteByte('\n')
	}
	first, _ := json.Marshal(head)
	return string(first) + "\n" + lines.String()
}

// headRoom is how many bytes of an answer are left for its head.
const headRoom = 256

// DecodeAnswer parses an answer of EncodeAnswer. Any user may have sent it: it may be
// untrue, but it is no longer than an answer may be.
func DecodeAnswer(text string) (a inspect.Answer, err error) {
	if len(text) > maxAnswer {
		return a, fmt.Errorf("%w: it has %d bytes", errAnswer, len(text))
	}
	first, rest, _ := strings.Cut(text, "\n")
	var head answerHead
	if err := json.Unmarshal([]byte(first), &head); err != nil {
		return a, fmt.Errorf("%w: %w", errAnswer, err)
	}
	if head.Version != answerVersion {
		return a, fmt.Errorf("%w: its version is %d", errAnswer, head.Version)
	}
	var uses []inspect.Use
	for line := range strings.Lines(rest) {
		var u answerUse
		if err := json.Unmarshal([]byte(line), &u); err != nil {
			return a, fmt.Errorf("%w: %w", errAnswer, err)
		}
		if len(uses) == maxUses {
			return a, fmt.Errorf("%w: it has more than %d uses", errAnswer, maxUses)
		}
		uses = append(uses, inspect.Use{
			Name: cmp.Or(u.Lock, string(u.Raw)), Kind: u.Kind, Owner: u.Owner, Goroutine: u.Goroutine, Waits: u.Waits,
			Since: time.UnixMilli(u.Since), PartOf: u.PartOf, Site: inspect.Site(u.Site),
		})
	}
	return inspect.Answer{Client: head.Client, At: time.UnixMilli(head.At), Cut: head.Cut, Uses: uses}, nil
}

// longestQuestion is how long the name of a question is at most: each answer repeats it.
const longestQuestion = 64

// Question returns the message by which the client with that id asks, and the beginning of
// the messages that answer it on that client's channel.
func Question(id *ID) (question ClientMessage, answers string) {
	question = ClientMessage{Verb: Asks, Owner: id.Owner(0, false), Text: strconv.Itoa(answerVersion)}
	return question, string(Answers) + " " + question.Owner + " "
}

// Answerable reports whether the message is a question that an answer of this version is for.
func (m ClientMessage) Answerable() bool {
	version, err := strconv.Atoi(m.Text)
	return m.Verb == Asks && IsOurs(m.Owner) && len(m.Owner) <= longestQuestion && err == nil && version >= answerVersion
}
