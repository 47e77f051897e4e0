package core

// A Want is what this client wants of a tenure.
type Want uint8

const (
	Gone    Want = iota // nothing: Redis is not to show it
	Tried               // the lock, if it is free and no ticket waits for it
	Queued              // a place in the queue, and the lock when its turn comes
	Resumed             // the lock that another tenure has passed on
	Held                // the lock, with the levels of its Lock
	Kept                // the lock, without a level: it lingers
	Parted              // the lock, until its lease ends, without a holder here: it is detached or passed on
	wants
)

// A Place is where Redis has a tenure, as far as this client knows.
type Place uint8

const (
	Unsent  Place = iota // nowhere: no command was sent
	Unsure               // anywhere: the command that brings it in has no answer, and may run yet
	Refused              // nowhere, and the lock may be free: a step is to find the first ticket
	InQueue              // in the queue, unless it was granted the lock since then
	Owner                // in the lock
	Over                 // nowhere, for good
	places
)

// A cell has the moves for a tenure at one want and place. The first move that is due is sent.
type cell []move

// A move is a command, and when it is due: Never for not now, and a nil function for at once.
type move struct {
	op  Op
	due func(*Tenure, Now) Time
}

// table has the command that brings the place of a tenure nearer to its want. Nothing else sends. In an empty cell an
// answer, a message or a call has to change the one or the other.
var table [wants][places]cell

func init() { // since the times need the table
	leave := cell{{Leave, (*Tenure).leaves}}
	resume := cell{{Resume, (*Tenure).resumes}}
	mirror := cell{{Step, (*Tenure).opens}, {Mirror, (*Tenure).mirrors}}
	table = [wants][places]cell{
		Gone: {
			Unsent:  {{Forget, nil}},
			Unsure:  leave,
			Refused: leave,
			InQueue: leave,
			Owner:   leave,
			Over:    {{Forget, nil}},
		},
		Tried:   {Unsent: {{Acquire, nil}}, InQueue: {{Look, (*Tenure).looks}}},
		Queued:  {Unsent: {{Join, nil}}, InQueue: {{Look, (*Tenure).looks}}},
		Resumed: {Unsent: resume, Unsure: resume},
		Held:    {Owner: mirror},
		Kept:    {Owner: mirror},
		Parted:  {Owner: {{Mirror, (*Tenure).passes}, {Step, (*Tenure).opens}, {Unmark, (*Tenure).unmarks}, {Forget, (*Tenure).endsItself}}},
	}
}

// next returns the command that is to be sent now for the tenure, None for none, and when to ask again: when the next one
// is due, or the tenure changes by the clock.
//
// One command is in flight at a time, with one exception: a Leave overtakes a command that cannot bring the tenure in,
// since the tenure is gone in the end whichever runs first. If the connection keeps the order it overtakes any other, too. And
// the Mirror that passes the lock on overtakes another one, which changes nothing after it.
func (t *Tenure) next(now Now) (op Op, at Time) {
	l, c, at := t.lock, t.lock.client, Never
	fly := t.flight.op
	waits := fly != None && (t.want != Gone || fly == Leave || fly.enters() && !c.Ordered) && t.within == 0
	if !waits && c.Broken.Cut[t.want]&(1<<t.place) == 0 {
		for _, m := range table[t.want][t.place] {
			due := Time(0)
			if m.due != nil {
				due = m.due(t, now)
			}
			if due < at {
				op, at = m.op, due
			}
		}
	}
	if now.Time < at {
		op = None
	}
	if t == l.owner {
		at = min(at, l.ends(now))
	}
	return op, at
}

// enters reports whether the command may bring a tenure to a place where it was not.
func (o Op) enters() bool { return o == Acquire || o == Resume || o == Join }

// isTicket reports whether the tenure is to get the lock yet.
func (t *Tenure) isTicket() bool { return t.want == Tried || t.want == Queued || t.want == Resumed }

// underWay reports whether a command of the tenure has no answer yet.
func (t *Tenure) underWay() bool { return t.flight.op != None }

// isMissing reports whether the ticket cannot get the lock any more.
func (t *Tenure) isMissing() bool {
	return t.place == Over || t.place == Unsure && t.want != Resumed && !t.underWay()
}
