package core

// A Config has what callers choose, what the protocol fixes, and the times of a client. The explorer has its own, in
// ticks.
type Config struct {
	Lease     Span // of a hold that is renewed until its Unlock
	Claim     Span // that a ticket is granted unless its client asks for more
	QueueTime Span // for how long Redis keeps a queue without a step
	Margin    Span // a lease is believed for so much less, and for a hundredth less

	LookTime        Span // how often a ticket is looked for
	Slack           Span // a ticket is looked for so long after a lease should have ended
	Retry, MaxRetry Span // the first and the longest pause after a command without an answer
	FirstPoll       Span // how soon a ticket that polls is looked for, doubling...
	LastPoll        Span // ...to this
	Silence         Span // for how long the answer to an abandoned command is waited for beyond a call's time
	Patience        Span // for how long a waiter waits for its subscription before it polls
	LeastWait       Span // a shorter wait is not worth a ticket
	ReadersTime     Span // for how long a reader is held back beside readers before it takes a ticket
	ShortSection    Span // a hold that began with a claim is not renewed sooner

	HandoffLimit int  // how often the lock is handed off inside the process while others wait...
	HandoffTime  Span // ...and for how long

	Foreign ForeignConfig

	Replicas bool // only the answers to an Acquire and to a Look say that replicas have the grant

	// Jitter returns a pause between retries and polls that is no longer than the one given, at random, so that clients
	// that have failed together do not come back together. nil: the pause itself.
	Jitter func(Span) Span
}

// doublings is how often a pause doubles at most.
const doublings = 10

// pause returns the pause after n tries that have brought nothing: first, doubling up to most, with jitter.
func (c *Config) pause(first, most Span, n int) Span {
	return c.jitter(min(first<<min(n, doublings), most))
}

func (c *Config) jitter(d Span) Span {
	if c.Jitter == nil {
		return d
	}
	return c.Jitter(d)
}

// A Client is what the locks of a client under one mutex share.
type Client struct {
	Config
	ID      uint32
	Tenure  func() uint64 // returns the number of a new tenure; nil: they are counted
	Effects []Effect      // that the driver has not taken yet, by TakeEffects

	closed   bool
	last     uint64   // number of a tenure
	spare    *Tenure  // one that is over, to be used again
	partings partings // those that Redis may show yet: see parted.go
	taken    []Effect // that the driver has taken last: the memory is used again
}

// Closed reports whether the client has closed.
func (c *Client) Closed() bool { return c.closed }

func (c *Client) number() uint64 {
	if c.Tenure != nil {
		return c.Tenure()
	}
	c.last++
	return c.last
}
