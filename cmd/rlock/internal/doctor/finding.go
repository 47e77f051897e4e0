package doctor

import "fmt"

// A Level is the severity of a finding.
type Level int

// The levels; a larger one is worse.
const (
	Green Level = iota
	Yellow
	Red
)

// String returns "green", "yellow" or "red".
func (l Level) String() string { return [...]string{"green", "yellow", "red"}[l] }

// MarshalText returns the text of String.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads the text of String.
func (l *Level) UnmarshalText(text []byte) error {
	for level := Green; level <= Red; level++ {
		if level.String() == string(text) {
			*l = level
			return nil
		}
	}
	return fmt.Errorf("%q is no level", text)
}

// A Finding is the answer of one check.
type Finding struct {
	Check  string `json:"check"`
	Level  Level  `json:"level"`
	Found  string `json:"found"`
	Risk   string `json:"risk,omitempty"`   // the possible harm; "" if the level is green
	Remedy string `json:"remedy,omitempty"` // the command that removes the risk; "" if the level is green
}

// Worst returns the worst level.
func Worst(findings []Finding) (worst Level) {
	for _, f := range findings {
		worst = max(worst, f.Level)
	}
	return worst
}
