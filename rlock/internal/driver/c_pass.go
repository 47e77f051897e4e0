package driver

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Pass names a lock that was passed on, for the client that resumes it.
type Pass struct {
	Kind    KindID
	Shared  bool   // it is a read lock
	Permits int    // of a semaphore
	Token   uint64 // of the hold, 0 for none
	Owner   string // "<uuid>:0", as Redis shows it
	Key     string
}

const (
	passVersion = "rlock1_"
	passFormat  = "%d %t %d %d %s %s"
	// longestPass is longer than the text of the longest name.
	longestPass = 128 << 10
)

// String returns the text of the pass: its version, and its fields with a checksum in a form for URLs.
func (p Pass) String() string {
	text := fmt.Appendf(nil, passFormat, p.Kind, p.Shared, p.Permits, p.Token, p.Owner, p.Key)
	return passVersion + base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(text, crc32.ChecksumIEEE(text)))
}

// ParsePass reads what String has written.
func ParsePass(text string) (p Pass, err error) {
	rest, ok := strings.CutPrefix(text, passVersion)
	if !ok || len(text) > longestPass {
		return p, fmt.Errorf("rlock: %w: it does not begin with %q", terms.ErrInvalidPass, passVersion)
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	n := len(raw) - 4
	if err != nil || n < 0 || crc32.ChecksumIEEE(raw[:n]) != binary.BigEndian.Uint32(raw[n:]) {
		return p, fmt.Errorf("rlock: %w: it was altered", terms.ErrInvalidPass)
	}
	fields := strings.SplitN(string(raw[:n]), " ", 6)
	if len(fields) < 6 {
		return p, fmt.Errorf("rlock: %w: it has %d fields", terms.ErrInvalidPass, len(fields))
	}
	p.Key = fields[5]
	_, err = fmt.Sscanf(strings.Join(fields[:5], " "), strings.TrimSuffix(passFormat, " %s"), &p.Kind, &p.Shared, &p.Permits, &p.Token, &p.Owner)
	if err != nil || p.Kind >= KindCount || p.Shared && p.Kind != ReadWriteKind || !wire.HasPassed(p.Owner) {
		return p, fmt.Errorf("rlock: %w: it names no lock that was passed on", terms.ErrInvalidPass)
	}
	return p, nil
}
