package once

import (
	"strconv"
	"strings"
	"time"
)

// A stored is a value as Redis has it. Its times are in µs of Redis' clock.
type stored struct {
	at     int64  // the time of the store; 0 for no value
	before int64  // the value is for callers that asked before this time: at, or an earlier time after a Forget
	until  int64  // the end of the time for which the value is kept
	began  int64  // a lower bound of the time at which its function began; 0 if it is not known
	run    string // the id of the run that made the value
	kind   string // kindValue, kindError or kindAbsent
	value  string
}

// The kinds of a stored.
const (
	kindValue  = "v"
	kindError  = "e" // the text of an error that is marked with ForAll
	kindAbsent = "-" // the value is too long for the message, and has to be read from Redis
)

// isFor reports whether the value is for a caller that asked when Redis' clock was at most floor:
// the value was stored later, and its function began after each Forget before the call. A floor of
// 0 is not known yet.
func (s *stored) isFor(floor int64) bool { return floor > 0 && s.before > floor }

// isKept reports whether the value was kept when Redis' clock was at now. A now of 0 is not known.
func (s *stored) isKept(now int64) bool { return now > 0 && now < s.until }

// wasForgotten reports whether a Forget came after the function had begun.
func (s *stored) wasForgotten() bool { return s.before < s.at }

// beganAfter reports whether the function of the value began after Redis' clock was at floor. A
// floor of 0 is not known yet.
func (s *stored) beganAfter(floor int64) bool { return floor > 0 && s.began > floor }

// parse reads the text that store.lua returns: "<at> <before> <until> <began> <run> <kind>
// <value>"; ok is false for any other text.
func parse(text string) (s stored, ok bool) {
	return readStored(strings.SplitN(text, " ", storedWords))
}

const storedWords = 7 // the number of words of a stored in Redis

// readStored reads a value from its words. ok is false for any other words.
func readStored(words []string) (s stored, ok bool) {
	if len(words) != storedWords {
		return s, false
	}
	s = stored{run: words[4], kind: words[5], value: words[6]}
	for i, n := range []*int64{&s.at, &s.before, &s.until, &s.began} {
		var err error
		if *n, err = strconv.ParseInt(words[i], 10, 64); err != nil {
			return s, false
		}
	}
	return s, s.kind == kindValue || s.kind == kindError || s.kind == kindAbsent
}

// earlier returns the lesser of two bounds; 0 stands for no bound.
func earlier(a, b int64) int64 {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	}
	return min(a, b)
}

// A reading is Redis' clock in the answer to a command, and the local time at which the command was
// sent. The zero reading is no reading.
type reading struct {
	clock int64 // the clock in µs
	sent  time.Time
	look  int // the number of the command among the looks of its flight; 0 if it was no look
}

// drift is the largest difference between the rates of two clocks: one in so many.
const drift = 100

// at returns an upper bound of Redis' clock at a local time, or 0 without a reading. When the
// command was sent Redis' clock was not later than the reading, since the command was executed
// after that.
func (r reading) at(t time.Time) int64 {
	if r.clock == 0 {
		return 0
	}
	since := max(t.Sub(r.sent), 0).Microseconds()
	return r.clock + since + since/drift + 1
}
