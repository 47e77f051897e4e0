package core

// tokens are the fencing tokens that a tenure has reserved, so that hand-offs inside the process ask for none. Their zero
// value is a lock without tokens.
type tokens struct {
	reserved uint32 // how many a grant reserves
	left     uint32 // how many of them are for later holds
	current  uint64 // of the hold that goes on, 0 before the grant
}

// A tenure reserves moreTokens times as many tokens as the one before it has used. The count is per Lock, and so resets to one
// when the lock becomes idle; under load it grows 16-fold per tenure.
const (
	moreTokens = 16
	maxTokens  = 1 << 16
)

// take begins with the first of n tokens, which end with last.
func (t *tokens) take(last, n uint64) {
	if t.reserved > 0 && last > 0 && n > 0 && n <= maxTokens {
		*t = tokens{reserved: uint32(n), left: uint32(n - 1), current: last - n + 1}
	}
}

// heard notes the tokens that a message has named.
func (t *tokens) heard(m Message) {
	if m.Tokens <= m.Token {
		t.take(m.Token, m.Tokens)
	}
}

// missing reports whether the tenure has no tokens though its holds need some.
func (t *tokens) missing() bool { return t.reserved > 0 && t.current == 0 }

// spent reports whether there is no token for another hold.
func (t *tokens) spent() bool { return t.reserved > 0 && t.left == 0 }

// passOn goes on to the token of the next hold.
func (t *tokens) passOn() {
	if t.left > 0 {
		t.current, t.left = t.current+1, t.left-1
	}
}

// next returns how many tokens the tenure after this one should reserve.
func (t *tokens) next() uint32 {
	if t.current == 0 { // also of a lock without tokens
		return 1
	}
	return min(moreTokens*(t.reserved-t.left), maxTokens)
}
