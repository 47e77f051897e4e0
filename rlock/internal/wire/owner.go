package wire

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	mathrand "math/rand/v2"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// An OwnerText is the text of an owner in Redis, "<uuid>:<id>": the UUID of a tenure or a ticket,
// and the id of the owner in its process. The id is 0 while the lock is passed on. A note may stand
// behind it: see Note. "*k" at the end stands for k permits, more than one. An owner of another
// program may have any text, and each method takes any text.
//
// No other code of Go takes such a text apart. scripts/tenures.lua, owners.lua and permits.lua have
// the same rules: see docs/protocol.md.
type OwnerText string

const (
	// ClientLen is the length of a client's id, which begins the UUIDs of its tenures.
	ClientLen = 19
	// uuidLen is the length of a UUID, and of the part of an owner's text before the colon.
	uuidLen = 36

	writeSuffix = ":write" // ends the field of a writer of a read-write lock
)

// Tenure returns the part of the text that stands for the tenure, "<uuid>:"; "" if the text is too
// short to have one.
func (t OwnerText) Tenure() string {
	if len(t) <= uuidLen {
		return ""
	}
	return string(t[:uuidLen+1])
}

// UUID returns the UUID of the tenure, "" if the text is too short to have one.
func (t OwnerText) UUID() string { return strings.TrimSuffix(t.Tenure(), ":") }

// ClientID returns the id of the client, "" if the text is too short to have one.
func (t OwnerText) ClientID() string {
	if len(t) < ClientLen {
		return ""
	}
	return string(t[:ClientLen])
}

// opaque returns what follows the tenure: the id, and what is behind it.
func (t OwnerText) opaque() string { return string(t[len(t.Tenure()):]) }

// OwnerID returns the id of the owner: 0 if the text has none, or the lock was passed on.
func (t OwnerText) OwnerID() uint64 {
	one, _ := t.CutMore()
	one, _ = one.CutNote()
	if one.Tenure() == "" {
		return 0
	}
	id, err := strconv.ParseUint(one.opaque(), 10, 64)
	if err != nil {
		return 0
	}
	return id
}

// IsOurs reports whether the owner is one of a client of rlock, by the form of its text and the
// version of its UUID: Redisson's UUIDs are of version 4. scripts/owners.lua has the same rule.
func (t OwnerText) IsOurs() bool {
	if len(t) <= uuidLen+1 {
		return false
	}
	digit, variant := t[uuidLen+1], t[ClientLen]
	return t[8] == '-' && t[13] == '-' && t[14] == '8' && t[18] == '-' && t[23] == '-' && t[uuidLen] == ':' &&
		(variant == '8' || variant == '9' || variant == 'a' || variant == 'b') && '0' <= digit && digit <= '9'
}

// IsPassed reports whether the owner stands for a lock that was passed on: see scripts/resume.lua.
func (t OwnerText) IsPassed() bool {
	one, _ := t.CutMore() // the owner has no note in this place
	return one.IsOurs() && one.opaque() == "0"
}

// TenureNumber returns the number of the tenure. ok is false if [ID.Text] of no client returns the
// text.
func (t OwnerText) TenureNumber() (number uint64, ok bool) {
	if !t.IsOurs() {
		return 0, false
	}
	digits := string(t[ClientLen:uuidLen])
	high, err := strconv.ParseUint(digits[:4], 16, 16)
	low, err2 := strconv.ParseUint(digits[5:], 16, 48)
	if err != nil || err2 != nil || digits[4] != '-' {
		return 0, false
	}
	return high<<48 | low, true
}

// WithMore returns the text of an owner with more permits beside the first: see
// scripts/permits.lua.
func (t OwnerText) WithMore(more int32) OwnerText {
	if more == 0 {
		return t
	}
	return t + OwnerText("*"+strconv.FormatInt(1+int64(more), 10))
}

// CutMore is the inverse of WithMore.
func (t OwnerText) CutMore() (owner OwnerText, more int32) {
	id, k, found := strings.Cut(t.opaque(), "*")
	if !found || t.Tenure() == "" {
		return t, 0
	}
	owner = t[:len(t.Tenure())+len(id)]
	if n, err := strconv.ParseInt(k, 10, 32); err == nil && n > 1 {
		return owner, int32(n - 1)
	}
	return owner, 0
}

// A Note is what the text of an owner says beside the owner, "#<ms>@<line>,<text>": a time as Unix
// time in milliseconds, by the clock of the owner's machine, and two texts as in a query of a URL,
// which escapes the space, "*", ":", "@" and ",". A "~" before the time means that the time is the
// beginning of a wait. Without a line there is no "@", and without a text no comma. To scripts and
// to Redisson the note is a part of the owner; queue.lua alone reads the line.
type Note struct {
	Text  string
	Line  string    // the line in which the call waits; or ""
	At    time.Time // the beginning of the hold or, if Waits, of the call; the zero time without a note
	Waits bool      // At is when the call began to wait
}

// String returns the note in words, for an error; "" for none.
func (n Note) String() string {
	if n.At.IsZero() {
		return ""
	}
	words := time.Since(n.At).Round(time.Millisecond).String()
	if n.Waits {
		words = "its call began " + words + " ago"
	} else {
		words = "for " + words
	}
	if n.Text != "" {
		words = strconv.Quote(n.Text) + ", " + words
	}
	return words
}

// The lengths of the longest texts of a note, in bytes. Most commands of a tenure have the note.
const (
	MaxNote = 1 << 10
	MaxLine = 1 << 6
)

// Short shortens a text to at most that many bytes. The result ends with a whole rune.
func Short(text string, most int) string {
	end := min(len(text), most)
	for end < len(text) && end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// WithNote returns the text of an owner with a note.
func (t OwnerText) WithNote(n Note) OwnerText {
	b := append([]byte(t), '#')
	if n.Waits {
		b = append(b, '~')
	}
	b = strconv.AppendInt(b, n.At.UnixMilli(), 10)
	if n.Line != "" {
		b = append(append(b, '@'), url.QueryEscape(n.Line)...)
	}
	if n.Text != "" {
		b = append(append(b, ','), url.QueryEscape(n.Text)...)
	}
	return OwnerText(b)
}

// CutNote is the inverse of WithNote. It takes a note out of any text of an owner of rlock.
func (t OwnerText) CutNote() (owner OwnerText, n Note) {
	id, note, found := strings.Cut(t.opaque(), "#")
	if !found || !t.IsOurs() {
		return t, n
	}
	end := ""
	if i := strings.IndexAny(note, "*:"); i >= 0 {
		note, end = note[:i], note[i:]
	}
	at, text, _ := strings.Cut(note, ",")
	at, line, _ := strings.Cut(at, "@")
	at, n.Waits = strings.CutPrefix(at, "~")
	if ms, err := strconv.ParseInt(at, 10, 64); err == nil {
		n.At = time.UnixMilli(ms)
	}
	n.Text, n.Line = unescaped(text), unescaped(line)
	return OwnerText(t.Tenure() + id + end), n
}

// unescaped returns a text of a note; as it is if no client of rlock has written it.
func unescaped(text string) string {
	if whole, err := url.QueryUnescape(text); err == nil {
		return whole
	}
	return text
}

// A HeldError is the error of a call that did not get a lock, and knows the holder.
type HeldError struct {
	Err     error     // the reason, in words that name the holder
	Holder  OwnerText // the owner with the note, as in Redis
	Process *Process  // the process of the holder; nil if it is not known
}

func (e *HeldError) Error() string { return e.Err.Error() }

func (e *HeldError) Unwrap() error { return e.Err }

// WriteField returns the field of the owner in the hash of a read-write lock, as a writer.
func (t OwnerText) WriteField() string { return string(t) + writeSuffix }

// CutWrite returns the owner in a field of the hash of a read-write lock, and whether it writes.
func (t OwnerText) CutWrite() (owner OwnerText, writes bool) {
	text, writes := strings.CutSuffix(string(t), writeSuffix)
	return OwnerText(text), writes
}

// Mark returns the mark of the tenure in the queue.
func (t OwnerText) Mark() string { return "!" + t.UUID() }

// A Member is a ticket in the queue: see scripts/queue.lua.
type Member struct {
	Ticket        OwnerText
	Shared, Polls bool
}

// ParseMember parses a member of the queue. ok is false for a mark, for "?", and for any other
// text.
func ParseMember(member string) (m Member, ok bool) {
	if len(member) < 2 || !strings.ContainsRune("xsabXSA", rune(member[0])) {
		return m, false
	}
	letter := member[0]
	return Member{Ticket: OwnerText(member[1:]), Shared: letter == 's' || letter == 'S', Polls: letter < 'a'}, true
}

// memberOf returns the member of a ticket in the queue: the letter of its mode, and the text.
func memberOf(t core.Ticket, text OwnerText) string { return modeLetter(t) + string(text) }

// modeLetter returns the letter of a ticket's mode in the queue.
func modeLetter(t core.Ticket) string {
	modes, mode := "xsab", t.Mode
	if t.Polls {
		modes = "XSA"
	}
	switch {
	case t.Answerable:
		mode = core.Shared + 1
	case t.Brief:
		mode = core.Shared + 2
	}
	return modes[mode : mode+1]
}

// IsOwner reports whether a field of a hash, or a member of a sorted set, looks like an owner of
// rlock or of Redisson: a UUID, a colon and a number, and maybe more (":write", "*3", or the id of
// a transaction).
func IsOwner(entry string) bool { return ownerForm.MatchString(entry) }

// MayOwn reports whether a field of a lock's hash may be an owner of any program that follows
// Redisson's protocol: it contains a colon before a number.
func MayOwn(field string) bool { return numbered.MatchString(field) }

var (
	ownerForm = regexp.MustCompile(`^[[:xdigit:]]{8}(-[[:xdigit:]]{4}){3}-[[:xdigit:]]{12}:-?[0-9]`)
	numbered  = regexp.MustCompile(`:-?[0-9]`)
)

// An ID makes the UUIDs of one client's tenures. Each tenure has its own UUID, so that a command
// that arrives late, from a connection long dead, can never touch a later tenure. The UUIDs are of
// version 8 (RFC 9562, 5.8): the first three groups are the client's, and the others number its
// tenures.
//
// The message of a grant names a ticket, and other users must not be able to forge one. So the
// numbers are random: the next ticket cannot be computed from the client's id and its earlier
// tenures.
type ID struct {
	Prefix string // "xxxxxxxx-xxxx-8xxx-"

	mu     sync.Mutex // guards the fields below
	random *mathrand.ChaCha8
}

// NewID returns an ID that no other client has.
func NewID() *ID {
	random := uuid.New()
	random[6] = 0x80 | random[6]&0x0f
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // never fails
	return &ID{Prefix: random.String()[:ClientLen], random: mathrand.NewChaCha8(seed)}
}

const variant = 0b10 << 62 // the variant of RFC 9562

// Number returns the number of a new tenure. It may be called concurrently.
func (id *ID) Number() uint64 {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.random.Uint64()&^(0b11<<62) | variant
}

// Text returns the text of an owner for the tenure with that number.
func (id *ID) Text(number uint64, owner uint64) OwnerText {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], number)
	buf := make([]byte, 0, 64)
	buf = append(buf, id.Prefix...)
	buf = hex.AppendEncode(buf, raw[:2])
	buf = append(buf, '-')
	buf = hex.AppendEncode(buf, raw[2:])
	buf = append(buf, ':')
	return OwnerText(strconv.AppendUint(buf, owner, 10))
}
