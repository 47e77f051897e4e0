package wire

import (
	"crypto/sha1"
	"encoding/hex"
	"strconv"
)

// Words returns the words of the call's command, with the hash of its script.
func (c Call) Words() []string {
	keys, args := c.split()
	words := append([]string{"EVALSHA", c.Script.sha, strconv.Itoa(len(keys))}, keys...)
	return append(words, args...)
}

// Text returns the Lua text of the script.
func (s *Script) Text() string { return s.text }

// WithText returns a script of that text.
func WithText(text string) *Script {
	sum := sha1.Sum([]byte(text))
	return &Script{text: text, sha: hex.EncodeToString(sum[:])}
}

// HasDirect reports whether a lone caller has a connection of its own now.
func (r *Redis) HasDirect() bool { return r.direct.line.Load() != nil && !r.direct.busy.Load() }
