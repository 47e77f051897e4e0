package once

import (
	"strconv"
	"strings"
	"time"
)

// A stored is a value as Redis has it. The times are those of Redis' clock, in µs.
type stored struct {
	at, until int64  // when it was stored, and until when it is kept; at is 0 for none
	run       string // which has made it
	kind      string // kindValue, kindError or kindAbsent
	value     string
}

// What a stored is.
const (
	kindValue  = "v"
	kindError  = "e" // the text of an error that is for all
	kindAbsent = "-" // it is longer than a message, and is in Redis
)

// isFor reports whether the value is for a caller that asked when Redis' clock was no later than the floor: it was stored
// after that, or is kept. A floor of 0 is not known yet.
func (s *stored) isFor(floor int64) bool {
	return floor > 0 && s.at > 0 && (s.at > floor || floor < s.until)
}

// parse reads what the store script returns: "<at> <until> <run> <kind> <value>".
func parse(text string) (s stored, ok bool) {
	words := strings.SplitN(text, " ", 5)
	if len(words) < 5 {
		return s, false
	}
	s = stored{run: words[2], kind: words[3], value: words[4]}
	var err1, err2 error
	s.at, err1 = strconv.ParseInt(words[0], 10, 64)
	s.until, err2 = strconv.ParseInt(words[1], 10, 64)
	return s, err1 == nil && err2 == nil && (s.kind == kindValue || s.kind == kindError || s.kind == kindAbsent)
}

// earlier returns the lesser of two bounds, of which 0 is none.
func earlier(a, b int64) int64 {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	}
	return min(a, b)
}

// A reading is Redis' clock as a command has told it, that was sent at a local time. The zero reading is none.
type reading struct {
	clock int64 // µs
	sent  time.Time
}

// drift is by how much the rates of two clocks differ at most: one in a hundred.
const drift = 100

// at returns an upper bound of Redis' clock at a local time, 0 if there is no reading. The command was executed after it was
// sent: so the clock was no later than that of the reading when it was sent.
func (r reading) at(t time.Time) int64 {
	if r.clock == 0 {
		return 0
	}
	since := max(t.Sub(r.sent), 0).Microseconds()
	return r.clock + since + since/drift + 1
}
