package core

import (
	"slices"
	"testing"
)

// parted returns a client that has parted with the tenures, each until the time of its number.
func parted(c *Client, now Time, numbers ...uint64) {
	l := c.NewLock(Kind{})
	for _, n := range numbers {
		t := l.newTenure(ID{N: n}, Alone)
		t.want, t.trust.seen, t.trust.most = Parted, at(0), Span(n)
		l.forget(t, at(now))
	}
	c.TakeEffects(at(now))
}

func TestATenureThatWasPartedWithIsKnownUntilItsLeaseEnds(t *testing.T) {
	c := &Client{}
	parted(c, 10, 30, 20, 40, 10)
	for _, n := range []uint64{5, 10, 20, 30, 40, 50} {
		for _, now := range []Time{10, 19, 20, 29, 30, 39, 40} {
			want := Time(n) > now && slices.Contains([]uint64{20, 30, 40}, n)
			if c.hasPartedFrom(ID{N: n}, at(now)) != want {
				t.Errorf("%d at %d: it is not %v that it is known", n, now, want)
			}
		}
	}
}

// A tenure that ends in another way is not known.
func TestATenureThatHasLeftIsNotPartedWith(t *testing.T) {
	c := &Client{}
	l := c.NewLock(Kind{})
	n := l.newTenure(ID{N: 1}, Alone)
	n.trust.most = 100
	if l.forget(n, at(0)); len(c.partings) > 0 {
		t.Error("it is known")
	}
}

// Those whose leases have ended are dropped, and there is room for twice as many as are left.
func TestPartingsTakeNoMoreMemoryThanTheirLeasesNeed(t *testing.T) {
	c := &Client{}
	for n := range Time(100_000) {
		parted(c, n, uint64(n)+100)
		if len(c.partings) > 400 || cap(c.partings) > 400 {
			t.Fatalf("%d are known, with room for %d", len(c.partings), cap(c.partings))
		}
	}
	if parted(c, 200_000, 200_500); !c.hasPartedFrom(ID{N: 200_500}, at(200_000)) {
		t.Error("the last one is not known")
	}
	for n := Time(300_000); cap(c.partings) > fewPartings; n++ { // their memory, too
		if parted(c, n, uint64(n)+1); n > 301_000 {
			t.Fatalf("there is room for %d", cap(c.partings))
		}
	}
}

// A tenure is remembered as long as a command of it is due: then only its number is.
func TestWhenAPartedTenureIsForgotten(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Tenure)
		over   bool
	}{
		{"nothing is due", func(n *Tenure) {}, true},
		{"its mark is to be taken out", func(n *Tenure) { n.marked = true }, false},
		{"a step is to let in others", func(n *Tenure) { n.step = true }, false},
		{"it is to be passed on", func(n *Tenure) { n.within = 5 }, false},
		{"it is about to be passed on", func(n *Tenure) { n.flight.op = Mirror }, false},
	} {
		_, n := tenure()
		n.want, n.place, n.trust.seen, n.trust.most = Parted, Owner, at(0), 100
		if c.change(n); n.isOver(at(99)) != c.over {
			t.Errorf("%s: over %v", c.name, !c.over)
		}
		if ends := n.within == 0 && !n.underWay(); n.isOver(at(100)) != ends {
			t.Errorf("%s: over at the end of its lease %v", c.name, !ends)
		}
	}
}
