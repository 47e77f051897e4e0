package terms

import (
	"math"
	"time"
)

// A Kind is the sort of a lock, as users see it.
type Kind string

// The kinds of locks.
const (
	KindPlain     Kind = "plain"
	KindFenced    Kind = "fenced"
	KindFair      Kind = "fair"
	KindRead      Kind = "read"
	KindWrite     Kind = "write"
	KindSemaphore Kind = "semaphore"
	KindMulti     Kind = "multi"
	KindRed       Kind = "red"
)

// Forever is the wait of a call that only its context ends.
const Forever time.Duration = math.MaxInt64

// Silence is how long a server may leave a command unanswered before it is taken for dead, until it answers.
const Silence = 250 * time.Millisecond
