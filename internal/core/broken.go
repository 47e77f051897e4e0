package core

// Broken is a set of rules that a test breaks, to see that the explorer finds out why they are there.
type Broken struct {
	Rules Rule
	Cut   [wants]uint16 // cells of the table that are taken out: a bit for each place
}

// A Rule is one of the protocol's rules that live in the client, by the name that docs/protocol.md gives it where it has one.
type Rule uint64

const (
	LeaveAgain     Rule = 1 << iota // a Leave that finds nothing is sent again while the command that enters may run late
	LastLeave                       // one more Leave is sent when the lease is over
	OwnSendTime                     // trust is counted from the send of a command, not from its answer
	TrustFromSeen                   // a grant is trusted from `seen`, not from its message
	LeastLease                      // a lease is trusted for no longer than any exact mirror has asked for
	Lengthens                       // a mirror shortens no lease unless Redis was told of a longer one than the levels ask for
	JoinOnce                        // a ticket joins by one command only
	JoinClaims                      // a join asks for a claim only
	Looks                           // a ticket is looked for once a claim
	Remember                        // a message that comes while a command is in flight is remembered
	HalfAClaim                      // with half of a claim or less the client looks before it holds
	GiveBack                        // a grant that no waiter wants is given back
	KnowsItsOwn                     // a tenure that this client has forgotten is released when a look of another one asks
	NewTicket                       // a waiter whose ticket is lost takes another
	LooksAgain                      // tickets are looked for when a subscription is confirmed again
	TrySteps                        // an attempt that a free lock refuses sends a step, and tries once more
	PollsOften                      // a ticket that polls is looked for often
	HandoffLimit                    // hand-offs have a limit while others wait
	MirrorTells                     // a mirror asks whether others wait
	ResumeSpends                    // a tenure that was resumed has no hand-offs while others wait
	ReleaseAtCall                   // a tenure that lingers is released when it is called
	CallKept                        // a tenure that is called in use does not linger
	EarlyCall                       // a call that comes before the answer to the acquire counts
	UseStays                        // a call does not end a hold
	NoWayBack                       // no hold begins in a tenure whose release is decided
	ReuseTrusted                    // no hold begins in a tenure that is not trusted
	AcquiredLinger                  // only a tenure that an acquire took lingers
	RenewalAsks                     // the renewal of a tenure that lingers asks whether others wait
	LingerEnds                      // a tenure lingers for a time only
	LoseInTime                      // a lease is not believed to its last tick
	KeepLate                        // a grant whose answer is late is looked for, and keeps its place
	LeaveFirst                      // no waiter asks for the lock before the release of the last tenure is answered
	PassTicket                      // a waiter that leaves passes its ticket on
	CallAgain                       // a client that is refused by a lingering holder asks once more
	WindowTold                      // a ticket is looked for when the turn of foreign clients ends
	ListenerLooks                   // a foreign listener looks when its subscription is confirmed
	FrontListens                    // a ticket that is told that it is the first becomes a foreign listener
	HolderFollowed                  // the first ticket follows a foreign holder's lease
	HeldBackTicket                  // a reader that is held back takes a ticket
	Downgrades                      // a downgrade that others wait for sends a step
	DetachUnmarks                   // a tenure that is detached takes its mark out
	KnowsDetached                   // a late grant to a tenure that is detached or passed on is not given back
	ResumesAgain                    // a resume without an answer is sent again for the same tenure
	PassReleases                    // a lock that Redis does not confirm to have passed on is released
	OwnWaiters                      // an owner does not wait for itself
	TellsShorter                    // a mirror that shortens the lease tells foreign clients
	WriterGivesWay                  // a writer gives way to readers while foreign readers keep it out
	StrictOrder                     // no hand-off passes another client's ticket of a strict lock
	Reserves                        // a hand-off needs a token of its own
	WriteEnds                       // no hold begins in a tenure in which a former one has sent a guarded write
	OwnAnswer                       // a release returns with the answer to its own command
	rules
)

// Rules returns all rules.
func Rules() Rule { return rules - 1 }
