package model_test

import "strings"

// configuration is a run in which nothing may go wrong.
type configuration struct {
	name    string
	defines string
	effort  effort
}

// rule is a run in which something goes wrong, since rules are dropped.
type rule struct {
	dropped   []string
	otherwise string // what goes wrong
	defines   string
	violates  string // a part of the assertion; "" for none: the rule only saves time or commands
	effort    effort
}

func (r rule) name() string { return strings.Join(r.dropped, ", ") }

const (
	base       = "-DIDS=2"
	noFaults   = base + " -DFAULTS=0 -DIDLE_TICKS=0"
	onlyLosses = base + " -DSTOPS=0 -DDIES=0 -DCUTS=0 -DWIPES=0"
	onlyDeaths = base + " -DLOSSES=0 -DSTOPS=0 -DCUTS=0 -DWIPES=0 -DDIED=1"
	onlyCuts   = base + " -DLOSSES=0 -DSTOPS=0 -DDIES=0 -DWIPES=0 -DIDLE_TICKS=0"
	deadFirst  = base + " -DFAULTS=0 -DDIED=1 -DDEAD_WAITERS=1 -DSILENCE=3 -DLEFT_TICKS=6"
	deadPermit = "-DIDS=3 -DFAULTS=0 -DDIED=1 -DDEAD_WAITERS=1 -DSILENCE=3 -DLEFT_TICKS=9 -DDEAD_TICKS=2 -DCLIENTS=3 -DKIND=SEMAPHORE"
	steady     = onlyLosses + " -DFAULTS=2 -DSTEADY=1 -DBOUNDS=0"
	shortLease = base + " -DFAULTS=0 -DCLAIM=3 -DLEASE=2 -DEAGER=1 -DBOUNDS=0"
	readWrite  = "-DCLIENTS=3 -DKIND=READ_WRITE"
	semaphore  = "-DCLIENTS=3 -DKIND=SEMAPHORE"
	polling    = noFaults + " -DPOLLER=0 -DFIFO=1 -DIDLE_TICKS=1"
	handOffs   = noFaults + " -DHANDOFFS=2"
	tryLocks   = base + " -DFAULTS=0 -DTRIES=1 -DDEAD_WAITERS=1 -DSILENCE=8 -DBOUNDS=0"
	guests     = noFaults + " -DGUESTS=1"
	pollers    = base + " -DFAULTS=0 -DGUESTS=1 -DPOLLING=2 -DIDLE_TICKS=1"
	allowed    = guests + " -DACQUIRES=1"

	linger     = " -DACQUIRES=1 -DLINGER=2 -DLINGERERS=1 -DUNHEARD_TICKS=2" // an acquire that runs late enters for a lease
	lingers    = noFaults + linger
	uncallable = lingers + " -DPOLLER=0 -DIDLE_TICKS=1"
	mute       = lingers + " -DWAITED_TICKS=1"
	lostCalls  = base + linger + " -DLOSSES=0 -DLOST_CALLS=1 -DSTOPS=0 -DDIES=0 -DCUTS=0 -DWIPES=0 -DWAITED_TICKS=1"
	standStill = base + linger + " -DLOSSES=0 -DDIES=0 -DCUTS=0 -DWIPES=0 -DWAITED_TICKS=2"
)

var configurations = []configuration{
	{"no faults", noFaults + " -DFIFO=1", always},
	{"acquire before join", noFaults + " -DACQUIRES=1", always},
	{"looks at any time", noFaults + " -DEAGER=1", always},
	{"a lease shorter than the claim", shortLease, always},
	{"a client dies", onlyDeaths, always},
	{"dead waiters", deadFirst, always},
	{"dead waiters of a semaphore", deadPermit, always},
	{"TryLock behind dead waiters", tryLocks, always},
	{"a client that polls", polling, always},
	{"hand-offs", handOffs, always},
	{"a lock lingers", lingers, always},
	{"a lock lingers, a client cannot be called", uncallable, always},
	{"a lock lingers, a call is lost", lostCalls, always},
	{"a subscription ends", onlyCuts, inLong},
	{"three clients", noFaults + " -DCLIENTS=3 -DFIFO=1", inLong},
	{"read-write, two readers and a writer", noFaults + " " + readWrite, inLong},
	{"semaphore, three clients and two permits", noFaults + " " + semaphore, inLong},
	{"guests", guests, inLong},
	{"guests, acquire before join", allowed, inLong},
	{"guests that poll", pollers, inLong},
	{"one fault of any kind", base, inLong},
	{"a lock lingers, a client dies", onlyDeaths + linger, inLong},
	{"a lock lingers, a subscription ends", onlyCuts + linger + " -DWAITED_TICKS=1", inLong},
	{"a lock lingers, a client stands still", standStill, inLong},
	{"read-write, one fault", base + " -DKIND=READ_WRITE", inDeep},
	{"a client that polls, one fault", base + " -DPOLLER=0 -DUNHEARD_TICKS=2", inDeep},
	{"hand-offs, one fault", base + " -DHANDOFFS=2 -DKEPT_TICKS=9", inDeep},
	{"one fault, looks at any time", base + " -DEAGER=1", inDeep},
	{"a lock lingers, one fault of any kind", base + linger + " -DWAITED_TICKS=3", inDeep},
	{"a lock lingers, guests", guests + linger + " -DWAITED_TICKS=1", inDeep},
	{"two losses", steady, inDeep},
}

var rules = []rule{
	{[]string{"JOIN_ONCE"}, "A join that runs late, after its ticket has held the lock and left, queues the ticket again: it is granted twice, the second time to nobody.", base, "granted[", always},
	{[]string{"LOOK_KEEPS_OUT"}, "A look that runs late queues a ticket that has left: it is granted to nobody.", base, "granted[", always},
	{[]string{"TRUST_FROM_SEEN"}, "A client reads the message of its grant late and trusts a claim that has ended: two valid holders.", base, "valid_holders", always},
	{[]string{"OWN_SEND_TIME"}, "The late reply to one command is taken for the reply to the next: the hold is trusted for longer than it lasts, and there are two valid holders.", base, "valid_holders", always},
	{[]string{"NEVER_SHORTEN", "LEAST_LEASE"}, "A look that is in flight at the grant cuts the claim to its own shorter lease, while the message is trusted for the claim: two valid holders without any fault.", shortLease, "valid_holders", always},
	{[]string{"NEVER_SHORTEN"}, "Nothing goes wrong, since a grant is trusted for no longer than the lease of the look.", shortLease, "", always},
	{[]string{"LEAST_LEASE"}, "Nothing goes wrong, since the look does not shorten the claim.", shortLease, "", always},
	{[]string{"HALF_A_CLAIM"}, "A hold begins with so little trust that one lost command ends it.", steady, "began", always},
	{[]string{"LOOKS"}, "The message of a grant is lost: the lock is free, its waiter does not know, and nobody asks.", base, "idle_ticks", always},
	{[]string{"REMEMBER"}, "A message comes too late to be trusted while a look is in flight. The look's answer, from before the grant, says that the ticket waits: the grant is lost for its claim.", base + " -DFAULTS=0 -DEAGER=1", "unheeded", always},
	{[]string{"JOIN_CLAIMS"}, "A join that runs late, after its leave, holds a free lock for a lease, and nobody knows.", base, "unheard_ticks", always},
	{[]string{"LEAVE_ANSWERED"}, "A leave is lost: the lock stays with a ticket that nobody wants until its lease ends.", base, "unheeded", always},
	{[]string{"LEAVE_AGAIN"}, "The reply to a leave that ran before a late join clears the leave that the late join's grant asked for: the grant is lost for its claim.", base, "unheeded", always},
	{[]string{"GIVE_BACK"}, "A join that runs late queues a ticket that was left: its grant costs a claim.", base, "unheeded", always},
	{[]string{"GIVE_BACK_NAMED"}, "A join that runs late takes a free lock, and no message tells. The client waits for a lock that its own ticket holds.", base, "unheeded", always},
	{[]string{"SWAP"}, "A join has no answer, its grant came too late to be trusted, and the client takes a new ticket: the grant is lost for its claim.", base, "unheeded", always},
	{[]string{"SWAP", "GIVE_BACK"}, "The ticket of an unanswered join is left in the queue: its grant costs a claim.", base, "unheeded", always},
	{[]string{"NEW_TICKET"}, "The queue is lost, and its waiters wait beside a free lock for ever.", base, "idle_ticks", always},
	{[]string{"RESUBSCRIBE_SWAPS"}, "A grant that was made while the subscription was down is found by the next look only: the lock stays free until then.", onlyCuts, "idle_ticks", always},
	{[]string{"SKIP_DEAF"}, "Each dead waiter costs a claim.", onlyDeaths, "deaf_holds", always},
	{[]string{"MARKS"}, "Each ticket of a client that died, and is still counted, costs a claim.", deadFirst, "dead_ticks", always},
	{[]string{"SPARE_SPEAKER"}, "A client whose hold ended while it stood still joins, and its own mark takes its new ticket out.", base, "r!=", always},
	{[]string{"MARKS_COUNT"}, "A release takes the early exit and leaves its mark: for a lease, an acquire is refused beside a free lock.", base, "marks_alone", always},
	{[]string{"TRY_STEPS"}, "The tickets of dead clients refuse a free lock to TryLock until the queue expires.", tryLocks, "refused_ticks", always},
	{[]string{"EACH_MARK"}, "While others hold permits of a semaphore, each ticket of a client that died costs a claim of one.", deadPermit, "dead_ticks", always},
	{[]string{"ALL_AT_ONCE"}, "The second of two readers waits although the lock is open for it.", noFaults + " " + readWrite, "idle_ticks", always},
	{[]string{"GRANT_POLLERS"}, "A client that may not subscribe loses its place at each release, and others pass it.", polling, "passed", always},
	{[]string{"POLLS_OFTEN"}, "A client that polls once a claim finds its grant when it has ended, and others pass it.", polling, "passed", always},
	{[]string{"HANDOFF_LIMIT"}, "A client with waiters of its own keeps the lock from the others for ever.", handOffs, "kept", always},
	{[]string{"MIRROR_TELLS"}, "A client does not learn that others came after it, and keeps the lock from them for ever.", handOffs, "kept", always},
	{[]string{"CALLS"}, "A client waits for a lock that nobody uses, until a renewal finds that it does.", lingers, "waited_ticks", always},
	{[]string{"RELEASE_AT_CALL"}, "The same.", lingers, "waited_ticks", always},
	{[]string{"CALL_KEPT"}, "The call comes while the lock is in use, and at the unlock it lingers beside a client that waits.", lingers, "waited_ticks", always},
	{[]string{"USE_STAYS"}, "A call takes the lock from its holder: two valid holders without any fault.", lingers, "valid_holders", always},
	{[]string{"NO_WAY_BACK"}, "A Lock begins in the tenure while its release is on the way: two valid holders without any fault.", lingers, "valid_holders", always},
	{[]string{"REUSE_TRUSTED"}, "A client stands still while its lock lingers, and begins in a tenure that another has followed: two valid holders.", standStill, "valid_holders", always},
	{[]string{"ACQUIRED_LINGER"}, "A tenure that was granted out of the queue lingers. Its UUID does not say so, and nobody calls.", lingers, "waited_ticks", always},
	{[]string{"HEARS"}, "A lock lingers at a client that no call reaches.", uncallable, "waited_ticks", always},
	{[]string{"RENEWAL_ASKS"}, "A call is lost, and the client waits until its look calls again.", lostCalls, "waited_ticks", always},
	{[]string{"LOOKS_CALL"}, "Nothing goes wrong, since the renewal asks. It does so once in ten seconds, where a look calls after two.", lostCalls, "", inLong},
	{[]string{"CALLS", "LOOKS_CALL"}, "Calls are refused: a client waits for one renewal, and no longer.", mute, "", always},
	{[]string{"CALLS", "LOOKS_CALL", "USE_ASKS"}, "Calls are refused, or those that wait are guests. The lock is in use whenever it is renewed, lingers in between, and is used again and again.", lingers + " -DWAITED_TICKS=4", "waited_ticks", always},
	{[]string{"LINGER_ENDS"}, "A lock that nobody uses stays held for ever.", lingers, "left_ticks", always},
	{[]string{"GUESTS_FIRST"}, "A client that releases and joins in one step goes before a guest that waits, again and again.", guests, "guest_passed", inLong},
	{[]string{"NEVER_ALONE"}, "The turn of a guest that went away stays in the queue: acquire is refused beside a free lock.", guests, "marks_alone", always},
	{[]string{"ONE_SUBSCRIBE"}, "Between its two commands an usher hides a guest from the count: the guest misses its turn.", guests, "missed_turn", always},
	{[]string{"USHER_LOOKS"}, "A guest releases before the usher has subscribed: the lock stays free until the next look.", guests, "idle_ticks", always},
	{[]string{"FRONT_TOLD"}, "The first waiter leaves, nobody is usher, and the lock that a guest releases stays free.", guests, "idle_ticks", always},
	{[]string{"WINDOW_TOLD"}, "A client looks during a guests' turn, does not learn when it ends, and the lock stays free.", guests, "idle_ticks", always},
	{[]string{"ACQUIRE_WAITS"}, "While nobody queues, acquire passes a guest that waits, again and again.", allowed, "guest_passed", inLong},
	{[]string{"POLL_TURNS"}, "A guest that polls is passed again and again.", pollers, "guest_passed", always},
	{[]string{"HOLDER_POLLED"}, "A guest releases without a word, and the lock stays free until the next look.", pollers, "idle_ticks", always},
	{[]string{"LONG_WINDOW"}, "The turn ends before the guest has come: it is passed again and again.", guests, "guest_passed", inLong},
}
