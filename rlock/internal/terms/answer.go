package terms

import "time"

// An Answer is what a call has learned that takes the answer of a release. Package rlock exports it.
type Answer struct {
	Text    string
	Waited  bool
	Clock   int64
	Read    time.Time
	Unless  string
	Keys    []string
	Args    []string
	Checked bool
}

// A Condition is the Unless of an Answer, with its keys and arguments, as a call has begun with it: the caller may write to the
// Answer once the call has returned, when a command with the condition may still be sent.
type Condition struct {
	Source     string
	Keys, Args []string
}
