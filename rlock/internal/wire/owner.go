package wire

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	mathrand "math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"
)

const (
	// ClientLen is the length of a client's id, which begins the UUIDs of its tenures.
	ClientLen = 19
	// TenureLen is the length of the part of an owner's text that stands for the
	// tenure: the UUID and the colon.
	TenureLen = 37
)

// An ID makes the UUIDs of one client's tenures. Each tenure has its own, so
// that a command that arrives late, from a connection long dead, can never touch
// a later tenure. The UUIDs are of version 8 (RFC 9562, 5.8): the first three
// groups are the client's, and the others number its tenures.
//
// The message of a grant names a ticket. Other users must not be able to forge one, so the
// numbers are random ones: the next ticket cannot be computed from the client's id and its
// earlier tenures.
type ID struct {
	Prefix string // "xxxxxxxx-xxxx-8xxx-"

	mu     sync.Mutex // protects following
	random *mathrand.ChaCha8
}

// NewID returns an ID that no other client has.
func NewID() *ID {
	random := uuid.New()
	random[6] = 0x80 | random[6]&0x0f
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // which never fails
	return &ID{Prefix: random.String()[:ClientLen], random: mathrand.NewChaCha8(seed)}
}

// Owner returns "<uuid>:<owner>" with the UUID of a new tenure: TenureLen characters that stand for the
// tenure, then the owner. It may be called concurrently.
func (id *ID) Owner(owner uint64) string { return id.Text(id.Number(), owner) }

const (
	variant      = 0b10 << 62 // that RFC 9562 asks for
	numberDigits = 17         // as they stand in a UUID: four, a dash and twelve
)

// Number returns the number of a new tenure. It may be called concurrently.
func (id *ID) Number() uint64 {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.random.Uint64()&^(0b11<<62) | variant
}

// Text returns "<uuid>:<owner>" for the tenure with that number.
func (id *ID) Text(number uint64, owner uint64) string {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], number)
	buf := make([]byte, 0, 64)
	buf = append(buf, id.Prefix...)
	buf = hex.AppendEncode(buf, raw[:2])
	buf = append(buf, '-')
	buf = hex.AppendEncode(buf, raw[2:])
	buf = append(buf, ':')
	return string(strconv.AppendUint(buf, owner, 10))
}

// NumberOf returns the number of a tenure from its owner's text. The text may be anything: ok says whether it is one that
// [ID.Text] writes, for whichever client.
func NumberOf(text string) (number uint64, ok bool) {
	if !IsOurs(text) || len(text) < TenureLen {
		return 0, false
	}
	digits := text[ClientLen : ClientLen+numberDigits]
	high, err := strconv.ParseUint(digits[:4], 16, 16)
	low, err2 := strconv.ParseUint(digits[5:], 16, 48)
	if err != nil || err2 != nil || digits[4] != '-' {
		return 0, false
	}
	return high<<48 | low, true
}

// IsOurs reports whether an owner in Redis is one of rlock's, of any client, by the form of its
// text and the version of its UUID. Redisson's are of version 4, and another program may have
// other texts. scripts/owners.lua says the same.
func IsOurs(owner string) bool {
	if len(owner) <= TenureLen {
		return false
	}
	digit, variant := owner[TenureLen], owner[ClientLen]
	return owner[8] == '-' && owner[13] == '-' && owner[14] == '8' && owner[18] == '-' && owner[23] == '-' && owner[36] == ':' &&
		(variant == '8' || variant == '9' || variant == 'a' || variant == 'b') && '0' <= digit && digit <= '9'
}

// HasPassed reports whether an owner in Redis stands for a lock that was passed on: see
// scripts/resume.lua.
func HasPassed(owner string) bool {
	owner, _ = CutMore(owner)
	return IsOurs(owner) && owner[TenureLen:] == "0"
}

// WithMore returns the text of an owner that has so many permits of a semaphore beside the first: see scripts/permits.lua.
func WithMore(owner string, more int32) string {
	if more == 0 {
		return owner
	}
	return owner + "*" + strconv.FormatInt(1+int64(more), 10)
}

// CutMore returns the text of an owner without that, and how many permits it says that the owner has beside the first.
func CutMore(text string) (owner string, more int32) {
	owner, k, _ := strings.Cut(text, "*")
	if n, err := strconv.ParseInt(k, 10, 32); err == nil && n > 1 {
		return owner, int32(n - 1)
	}
	return owner, 0
}

// IsOwner reports whether a field of a hash, or a member of a sorted set, looks like an owner, of
// this package or of Redisson: a UUID, a colon and a number, and maybe more (":write", or the id
// of a transaction).
func IsOwner(entry string) bool { return ownerText.MatchString(entry) }

// MayOwn reports whether the holder of a key, as an acquire or HKEYS shows it, may be an owner
// of another program that follows Redisson's protocol: a colon and a number are in it.
func MayOwn(holder string) bool { return numbered.MatchString(holder) }

var (
	ownerText = regexp.MustCompile(`^[[:xdigit:]]{8}(-[[:xdigit:]]{4}){3}-[[:xdigit:]]{12}:-?[0-9]`)
	numbered  = regexp.MustCompile(`:-?[0-9]`)
)
