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
	onlyLosses = base + " -DSTOPS=0 -DDIES=0 -DCUTS=0 -DWIPES=0"
	onlyDeaths = base + " -DLOSSES=0 -DSTOPS=0 -DCUTS=0 -DWIPES=0 -DDIED=1"
	onlyCuts   = base + " -DLOSSES=0 -DSTOPS=0 -DDIES=0 -DWIPES=0 -DIDLE_TICKS=0"
	deadFirst  = base + " -DFAULTS=0 -DDIED=1 -DDEAD_WAITERS=1 -DSILENCE=3 -DLEFT_TICKS=6"
	steady     = onlyLosses + " -DFAULTS=2 -DSTEADY=1 -DBOUNDS=0"
	shortLease = base + " -DFAULTS=0 -DCLAIM=3 -DLEASE=2 -DEAGER=1 -DBOUNDS=0"
)

var configurations = []configuration{
	{"no faults", base + " -DFAULTS=0", always},
	{"three clients, no faults", base + " -DFAULTS=0 -DCLIENTS=3", inLong},
	{"looks at any time", base + " -DFAULTS=0 -DEAGER=1", always},
	{"a lease shorter than the claim", shortLease, always},
	{"a subscription ends", onlyCuts, inLong},
	{"a client dies", onlyDeaths, always},
	{"dead waiters", deadFirst, always},
	{"one fault of any kind", base + " -DFAULTS=1", inLong},
	{"one fault, looks at any time", base + " -DFAULTS=1 -DEAGER=1", inDeep},
	{"two losses", steady, inDeep},
	{"two faults of any kind", base + " -DFAULTS=2 -DBOUNDS=0", inDeep},
	{"three clients, one fault", base + " -DFAULTS=1 -DCLIENTS=3", inDeep},
	{"time passes at any time", base + " -DFAULTS=0 -DFREE=1 -DLEASE=2", inDeep},
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
	{[]string{"SWAP"}, "Nothing is lost: the old ticket is granted to nobody and given back, at the cost of a hand-over.", base, "", inLong},
	{[]string{"SWAP", "GIVE_BACK"}, "The ticket of an unanswered join is left in the queue: its grant costs a claim.", base, "unheeded", always},
	{[]string{"NEW_TICKET"}, "The queue is lost, and its waiters wait beside a free lock for ever.", base, "idle_ticks", always},
	{[]string{"RESUBSCRIBE_SWAPS"}, "A grant that was made while the subscription was down is found by the next look only: the lock stays free until then.", onlyCuts, "idle_ticks", always},
	{[]string{"SKIP_DEAF"}, "Each dead waiter costs a claim.", onlyDeaths, "dead_ticks", always},
	{[]string{"MARKS"}, "Each ticket of a client that died, and is still counted, costs a claim.", deadFirst, "dead_ticks", always},
	{[]string{"SPARE_SPEAKER"}, "A client whose hold ended while it stood still joins, and its own mark takes its new ticket out.", base, "r!=", always},
	{[]string{"MARKS_COUNT"}, "A release takes the early exit and leaves its mark: for a lease, an acquire is refused beside a free lock.", base, "marks_alone", always},
}
