package core

import "testing"

// besideForeign returns a lock with a ticket, and the times of windows of foreign clients.
func besideForeign() (*Lock, *Tenure) {
	l, n := tenure()
	l.client.Slack, l.client.Foreign = 1, ForeignConfig{WindowLook: 5, Look: 4, SilentLook: 1, Noise: 2, SilentNoise: 1, LongLease: 100}
	n.want, n.entry, n.place = Asked, Join, InQueue
	return l, n
}

func TestWhenTheFirstTicketLooksBesideForeignClients(t *testing.T) {
	for _, c := range []struct {
		name    string
		reply   Reply
		in      Span
		listens bool
	}{
		{"no foreign client is there", Reply{Found: First}, Forever, false},
		{"it is not the first", Reply{Found: Waits, Foreign: true, TTL: 20}, Forever, false},
		{"it is not the first in their window", Reply{Found: Waits, Window: 3}, Forever, false},
		{"readers are held back", Reply{Found: Waits, HeldBack: true, HeldFor: 7}, 8, false},
		{"they may begin", Reply{Found: Waits, HeldBack: true}, Forever, false},
		{"they are not held back", Reply{Found: Waits, HeldFor: 7}, Forever, false},
		{"in a window", Reply{Found: First, Window: 3}, 4, true},
		{"in a window, while readers are held back", Reply{Found: First, Window: 3, HeldBack: true, HeldFor: 1}, 2, true},
		{"in a window that is not long", Reply{Found: First, Window: 5}, 6, true},
		{"in a long window", Reply{Found: First, Window: 6}, 5, true},
		{"in a long window, while readers are held back", Reply{Found: First, Window: 50, HeldBack: true, HeldFor: 2}, 3, true},
		{"a foreign client has the lock", Reply{Found: First, Foreign: true, TTL: 20}, 4, true},
		{"a foreign client has it in a window", Reply{Found: First, Window: 2, Foreign: true, TTL: 20}, 3, true},
		{"without an end", Reply{Found: First, Foreign: true, TTL: NoTTL}, Forever, true},
		{"for very long", Reply{Found: First, Foreign: true, TTL: 101}, Forever, true},
		{"for long", Reply{Found: First, Foreign: true, TTL: 100}, 4, true},
	} {
		l, n := besideForeign()
		l.client.TakeEffects(at(0))
		if in := l.follow(n, c.reply, at(100)); in != c.in || (l.abroad.hears != deaf) != c.listens {
			t.Errorf("%s: in %d", c.name, in)
		}
		if told := len(l.client.TakeEffects(at(0))) == 1; told != c.listens {
			t.Errorf("%s: listens %v", c.name, told)
		}
	}
}

// Some foreign clients publish nothing when they release the lock: it seems to be renewed then.
func TestTheFirstTicketFollowsAForeignHolder(t *testing.T) {
	l, n := besideForeign()
	l.listenAbroad()
	l.ListeningAbroad(at(99))
	n.look = Never
	for i, c := range []struct {
		now   Time
		ttl   Span
		hears bool // a message, before
		in    Span
		news  abroadNews
		since Time
	}{
		{100, 20, false, 4, noneAbroad, 100},
		{104, 16, false, 4, noneAbroad, 100},
		{108, 14, false, 8, noneAbroad, 100},  // it seems to end two later: noise
		{110, 10, false, 10, noneAbroad, 100}, // it looks less and less often
		{110, 13, false, 1, silent, 110},      // taken again without a message
		{111, 13, false, 1, silent, 110},      // one later: noise
		{112, 12, false, 2, silent, 110},
		{113, 12, false, 1, silent, 113}, // two later
		{115, 8, false, 1, silent, 115},  // two sooner
		{117, 7, false, 2, silent, 115},  // one later
		{118, 4, false, 3, silent, 115},  // one sooner
		{120, 20, true, 4, noneAbroad, 120},
		{121, 30, true, 4, noneAbroad, 121}, // with a message it is no silent holder
		{122, 5, false, 1, silent, 122},
	} {
		if c.hears {
			l.Hear(Message{Kind: ForeignNews}, at(c.now))
		}
		in := l.follow(n, Reply{Found: First, Foreign: true, TTL: c.ttl}, at(c.now))
		if in != c.in || l.abroad.news != c.news || l.abroad.since != c.since {
			t.Errorf("%d: in %d, news %d, since %d", i, in, l.abroad.news, l.abroad.since)
		}
	}
}

func TestNewsOfForeignClientsAreToldOnce(t *testing.T) {
	l, n := besideForeign()
	l.abroad.hears = listening
	l.Hear(Message{Kind: ForeignNews, Ours: true}, at(1))
	if l.abroad.told || n.look != 1 {
		t.Error("what ours publish is no foreign release, but the ticket is looked for")
	}
	l.Hear(Message{Kind: ForeignNews}, at(2))
	if first, second := n.send(Look, at(3)), n.send(Look, at(3)); !first.Heard || second.Heard {
		t.Error("it is told once")
	}
}

func TestALockIgnoresForeignClientsOnceNoTicketWaits(t *testing.T) {
	for _, c := range []struct {
		name  string
		want  wanted
		place Place
		owner bool
		stays bool
	}{
		{"a ticket waits", byJoin, InQueue, false, true},
		{"its join is in flight", byJoin, Unsure, false, true},
		{"it has no place yet", byJoin, Out, false, true},
		{"this client has the lock", byJoin, InQueue, true, false},
		{"the ticket leaves", wanted{Want: Gone}, InQueue, false, false},
		{"it has the lock", byJoin, Owner, false, false},
		{"it is no ticket", wanted{Want: Gone}, Unsure, false, false},
	} {
		l, n := besideForeign()
		n.want, n.entry, n.place, l.abroad.hears, l.abroad.told = c.want.Want, c.want.entry, c.place, listening, true
		if c.owner {
			l.owner = l.newTenure(ID{1, 2}, Alone)
		}
		l.client.TakeEffects(at(0))
		l.dismiss()
		if told := len(l.client.TakeEffects(at(0))) > 0; told == c.stays || (l.abroad.hears == listening) != c.stays || !l.abroad.told {
			t.Errorf("%s: %+v", c.name, l.abroad)
		}
	}
}
