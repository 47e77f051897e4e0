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
