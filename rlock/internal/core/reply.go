package core

import "github.com/go-rlock/rlock/internal/enum"

// A verdict is what the answer to a command says of its tenure.
type verdict uint8

const (
	holds    verdict = iota // it has the lock
	waits                   // it stands in the queue
	free                    // it is nowhere, Redis has named no holder, and no ticket follows: a step has to find the first
	nowhere                 // it is nowhere
	left                    // it has left
	absent                  // it was not there, and cannot come any more
	granted                 // the lock was granted to it since it was to leave
	executed                // the command was executed, and says nothing
	notRun                  // the command was not executed, and will not be
	unknown                 // the command may still be executed
	fatal                   // the command was refused, and would be refused again

	verdicts = iota // how many there are
)

func (v verdict) String() string {
	return enum.Name(v, "verdict", "holds", "waits", "free", "nowhere", "left", "absent", "granted", "executed", "notRun", "unknown", "fatal")
}

// A change is the place after an answer, if that changes it.
type change uint8

const (
	asItWas change = iota
	toOut
	toUnsure
	toInQueue
	toOwner
)

func (c change) String() string {
	return enum.Name(c, "change", "asItWas", "toOut", "toUnsure", "toInQueue", "toOwner")
}

func (c change) place() Place { return Place(c - toOut) }

// answers has the place of a tenure after the answer to each command. The picture in doc.go shows it. Two answers are
// not in it: the last Leave, after which the tenure is Out by the clock, and a grant that comes too late to be believed.
var answers = [ops][verdicts]change{
	Acquire: {holds: toOwner, nowhere: toOut, notRun: toOut, fatal: toOut},
	Resume:  {holds: toOwner, free: toOut, nowhere: toOut},
	Join:    {holds: toOwner, waits: toInQueue, free: toOut, nowhere: toOut, notRun: toOut, fatal: toOut},
	Look:    {holds: toOwner, waits: toInQueue, free: toOut, nowhere: toOut},
	Mirror:  {holds: toOwner, free: toUnsure, nowhere: toUnsure, fatal: toOut},
	Leave:   {left: toOut, absent: toOut, granted: toOwner, fatal: toOut},
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
	case Answered:
	default:
		panic("core: a reply with the fault " + a.Fault.String())
	}
	switch f.op {
	case Step, Unmark:
		return executed
	case Leave:
		return t.verdictOfLeave(f, a)
	case Acquire, Resume, Join, Look, Mirror:
		return t.verdictOfFound(a)
	default:
		panic("core: a reply to a command " + f.op.String())
	}
}

// verdictOfFound returns what the answer to a command says that has looked for the tenure.
func (t *Tenure) verdictOfFound(a Reply) verdict {
	switch a.Found {
	case Holds:
		return holds
	case Waits, First:
		return waits
	case Nowhere:
		if a.Holder == (ID{}) && !a.Foreign && !t.joinsNext() {
			return free
		}
		return nowhere
	default:
		panic("core: a reply that has found the tenure " + a.Found.String())
	}
}

// joinsNext reports whether the call of the ticket, which has tried once, waits in the queue next: its Join is a step, too.
func (t *Tenure) joinsNext() bool { return t.entry == Acquire && t.call != nil && t.call.Waits }

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
