package core

import "testing"

func TestATicketIsAskedForAsItsCallEnters(t *testing.T) {
	for _, entry := range []Op{Acquire, Join, Resume} {
		l, w := waiter()
		if n := l.asks(w, entry); n.want != Asked || n.entry != entry || w.Tenure != n || n.Agent != w {
			t.Errorf("%v: %+v", entry, n)
		}
	}
}

func TestATenureThatIsGivenUpHasNothingElseToDo(t *testing.T) {
	l := held()
	n := l.owner
	l.Kind.Fenced = true
	n.within, n.again, n.fails, n.tokens = 10, 900, 3, tokens{1, 0, 7}
	l.client.TakeEffects(at(0))
	if l.give(n, at(50)); n.want != Gone || n.within != 0 || n.again != 0 || n.fails != 0 || n.since != 50 || l.owner != nil || l.reserve != moreTokens || !polled(l, n) {
		t.Errorf("%+v", n)
	}
	l, w := waiter()
	n = l.asks(w, Join)
	if l.give(n, at(50)); w.Tenure != nil || n.Agent != nil {
		t.Error("its waiter has it")
	}
}

// The memory of a call is used again, and a client that has closed resumes nothing.
func TestACallThatResumesBeginsAnew(t *testing.T) {
	l, _ := waiter()
	w := &Call{Owner: 2, Until: Never, Named: ID{2, 9}, Outcome: Failed, Began: 7}
	if l.Resume(w, at(50)) != Waiting || !w.Waits || w.Began != 50 || w.Tenure.entry != Resume || w.Tenure.tokens != (tokens{}) {
		t.Errorf("%+v", w)
	}
	for _, token := range []uint64{1, 5} {
		w = &Call{Owner: 2, Until: Never, Inherits: token}
		if l.Resume(w, at(50)); w.Tenure.tokens != (tokens{reserved: 1, current: token}) {
			t.Errorf("%+v", w.Tenure.tokens)
		}
	}
	l.client.closed = true
	w = &Call{Owner: 2, Until: Never}
	if l.Resume(w, at(50)) != Closed || w.Tenure != nil {
		t.Errorf("outcome %d", w.Outcome)
	}
}
