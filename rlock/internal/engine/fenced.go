package engine

import (
	"strconv"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A fenced lock is a plain lock, and a counter beside it.
var fenced = plain.but(func(k *kind) {
	k.public = KindFenced
	k.acquire = acquireFenced
	k.number = tokensReserved
	k.layout.Extra, k.layout.HasExtra = "redisson_lock_token:", true
	k.fenced = true
})

func acquireFenced(t *tenure) wire.Call {
	n := t.room.name
	return wire.Acquire.Call(3, n.Key, n.Queue, n.Extra,
		t.room.client.milliseconds(t.lease), t.text, strconv.FormatUint(t.tokens.reserved, 10))
}

func tokensReserved(_ *Name, tokens uint64) string { return strconv.FormatUint(max(tokens, 1), 10) }

// How a tenure of a fenced lock numbers its critical sections.

const (
	// A tenure reserves moreTokens times as many tokens as the one before it used,
	// if somebody has waited since. So one that is alone takes one, and a crowd has
	// enough after a few tenures.
	moreTokens = 16
	// maxTokens is the most that a tenure reserves. It is freed after as many
	// sections: of a crowd that does nothing else some fifteen times a second.
	maxTokens = 1 << 16
)

// tokens are those that a tenure has reserved; nil is a lock without tokens.
type tokens struct {
	reserved uint64 // how many
	current  uint64 // of the section that goes on, 0 before the grant
	last     uint64
}

// asked returns how many an acquire is to reserve, 0 for a lock without tokens.
func (t *tokens) asked() uint64 {
	if t == nil {
		return 0
	}
	return t.reserved
}

// take begins with the first of the n tokens that end with last.
func (t *tokens) take(last, n uint64) {
	if t != nil {
		t.reserved, t.current, t.last = n, last-n+1, last
	}
}

// section returns the token of the section that goes on.
func (t *tokens) section() uint64 {
	if t == nil {
		return 0
	}
	return t.current
}

// spent reports whether there is no token for another section.
func (t *tokens) spent() bool { return t != nil && t.current == t.last }

// next returns how many the tenure after this one should reserve.
func (t *tokens) next() uint64 {
	if t == nil {
		return 0
	}
	used := t.reserved - (t.last - t.current)
	return min(moreTokens*used, maxTokens)
}
