package core

// A verdict is what the answer to a command says of its tenure.
type verdict uint8

const (
	holds    verdict = iota // it has the lock
	waits                   // it stands in the queue
	free                    // it is nowhere, and Redis has named no holder
	nowhere                 // it is nowhere
	left                    // it has left
	absent                  // it was not there, and cannot come any more
	granted                 // the lock was granted to it since it was to leave
	executed                // the command was executed, and says nothing
	notRun                  // the command was not executed, and will not be
	unknown                 // the command may still be executed
	fatal                   // the command was refused, and would be refused again
	verdicts
)

// asItWas is the place after an answer that changes none.
const asItWas = places

// answers has the place of a tenure after the answer to each command. The picture in doc.go shows it. Two answers are
// not in it: the last Leave, after which the tenure is over by the clock, and a grant that comes too late to be believed.
var answers = [ops][verdicts]Place{
	Acquire: {holds: Owner, free: Refused, nowhere: Over, notRun: Over, fatal: Over},
	Resume:  {holds: Owner, free: Over, nowhere: Over},
	Join:    {holds: Owner, waits: InQueue, free: Over, nowhere: Over, notRun: Over, fatal: Over},
	Look:    {holds: Owner, waits: InQueue, free: Over, nowhere: Over},
	Mirror:  {holds: Owner, free: Refused, nowhere: Refused, fatal: Over},
	Leave:   {left: Over, absent: Over, granted: Owner, fatal: Over},
}

func init() { // the zero Place is one: so a blank cell is filled in here
	for op := range answers {
		for v, p := range answers[op] {
			if p == Unsent {
				answers[op][v] = asItWas
			}
		}
	}
}

// verdict returns what the answer to the flight says.
func (t *Tenure) verdict(f flight, a Reply) verdict {
	switch a.Fault {
	case NotRun:
		return notRun
	case Unknown, Behind:
		return unknown
	case Fatal:
		return fatal
	}
	switch f.op {
	case Step, Unmark:
		return executed
	case Leave:
		return t.verdictOfLeave(f, a)
	}
	switch {
	case a.Found == Holds:
		return holds
	case a.Found == Waits, a.Found == First:
		return waits
	case a.Holder == (ID{}) && !a.Foreign:
		return free
	}
	return nowhere
}

// verdictOfLeave returns what the answer to a Leave says.
func (t *Tenure) verdictOfLeave(f flight, a Reply) verdict {
	switch {
	case t.news == grant:
		return granted // by a command that ran late
	case a.Left:
		return left
	case t.mayCome(f, a):
		return unknown // it is tried again for a lease, and less and less often
	}
	return absent
}
