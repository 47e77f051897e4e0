package core

import "testing"

// Only an attempt may bring a tenure that lingers, and only the first one of a call: another client has to be able to call it.
func TestWhichTenuresMayLinger(t *testing.T) {
	for _, c := range []struct {
		entry   Op
		linger  Span
		attempt attempt
		may     bool
	}{{Acquire, 1, tries, true}, {Acquire, 0, tries, false}, {Acquire, 1, triesAgain, false}, {Join, 1, tries, false}, {Resume, 1, tried, false}} {
		l, w := waiter()
		w.Linger, w.attempt = c.linger, c.attempt
		if n := l.asks(w, c.entry); n.ID.Lingers != c.may || n.want != Asked || n.entry != c.entry || w.Tenure != n || n.call != w {
			t.Errorf("%+v: %v", c, n.ID.Lingers)
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
	if l.give(n, at(50)); w.Tenure != nil || n.call != nil {
		t.Error("its waiter has it")
	}
}

// The memory of a call is used again, and a client that has closed resumes nothing.
func TestACallThatResumesBeginsAnew(t *testing.T) {
	l, _ := waiter()
	w := &Call{Owner: 2, Until: Never, Named: ID{2, false, 9}, Outcome: Failed, began: 7}
	if l.Resume(w, at(50)) != Waiting || !w.Waits || w.began != 50 || w.Tenure.entry != Resume || w.Tenure.tokens != (tokens{}) {
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
