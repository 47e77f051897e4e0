package core

import (
	"slices"
	"testing"
	"unsafe"
)

// A lock may be released by force while a mirror is in flight. The tenure is over then, and the
// answer is for a former life of its memory.
func TestAnAnswerToATenureThatIsOverChangesNothing(t *testing.T) {
	l, n := held(Alone)
	now := Now{20_000, 20_000}
	mirror, _ := l.Poll(n, now)
	l.Answer(&Command{Op: Leave, Ticket: Ticket{ID: n.ID}}, nil, Reply{Left: true}, now)
	l.client.TakeEffects(now)
	if cmd, due := l.Poll(n, now); mirror.Op != Mirror || cmd.Op != None || due != Never || n.Lock() != nil || !l.Idle() {
		t.Fatal("the tenure is not over")
	}
	l.client.TakeEffects(now)
	l.Answer(&mirror, nil, Reply{Found: Holds, Others: 1}, now)
	if !l.Idle() || len(l.client.TakeEffects(now)) > 0 || n.place == Owner {
		t.Error("an answer to a former life counts")
	}
	n.Tag = 7
	other := l.client.NewLock(Kind{})
	other.BeginLock(&Call{Owner: 1, Until: Never}, now)
	next := other.tenures.first
	if next != n || next.Tag != 7 || l.Find(n.ID) != nil {
		t.Fatal("its memory is not used again, with what the driver has there")
	}
	acquire := other.Command(next.Agent, Acquire, now)
	if other.Answer(&mirror, nil, Reply{Found: Holds}, now); next.OpInFlight() != Acquire || acquire.tenureSeq == mirror.tenureSeq {
		t.Error("an answer to a former life counts in the next")
	}
	if cmd, due := l.Poll(next, now); cmd.Op != None || due != Never {
		t.Error("a tenure of another lock has something to send")
	}
	if l.client.spare != nil {
		t.Error("its memory is used twice")
	}
}

// The memory that an effect names, which is not taken yet, is not used again.
func TestATenureThatAnEffectNamesIsNotUsedAgain(t *testing.T) {
	l, n := held(Alone)
	n.noteTakenOut()
	if l.Poll(n, Now{}); len(l.client.Effects) == 0 || l.client.spare != n {
		t.Fatal("it is not over")
	}
	if l.newTenure(ID{1, 2}, Alone) == n {
		t.Error("it is used again")
	}
}

// Tenures are found by a map while they are many, and what is over points to no other.
func TestManyTenuresAreFoundByAMap(t *testing.T) {
	l := (&Client{}).NewLock(Kind{})
	var all []*Tenure
	for i := range uint64(manyTenures + 3) {
		if (l.tenures.byID != nil) != (i > manyTenures) {
			t.Errorf("%d tenures, in a map: %v", i, l.tenures.byID != nil)
		}
		all = append(all, l.newTenure(ID{N: i}, Alone))
	}
	for _, i := range []int{0, 4, len(all) - 1} {
		if l.forget(all[i], Now{}); all[i].prev != nil || all[i].behind != nil || l.Find(all[i].ID) != nil {
			t.Errorf("the tenure %d is there", i)
		}
		all[i] = nil
	}
	if is := slices.Collect(l.Tenures); !slices.Equal(is, slices.DeleteFunc(all, func(n *Tenure) bool { return n == nil })) {
		t.Errorf("%d tenures", len(is))
	}
}

// A client may hold many locks: so a tenure and a level keep to a size of Go's allocator.
func TestATenureHasASizeOfTheAllocator(t *testing.T) {
	if size := unsafe.Sizeof(Tenure{}); size > 320 {
		t.Errorf("a tenure has %d bytes", size)
	}
	if size := unsafe.Sizeof(Level{}); size > 80 {
		t.Errorf("a level has %d bytes", size)
	}
}

// parted returns a client that has parted with the tenures, each until the time of its number.
func parted(c *Client, now Time, numbers ...uint64) {
	l := c.NewLock(Kind{})
	for _, n := range numbers {
		t := l.newTenure(ID{N: n}, Alone)
		t.want, t.trust.most = Parted, Span(n)
		l.forget(t, Now{Time: now})
	}
	c.TakeEffects(Now{Time: now})
}

func TestATenureThatWasPartedWithIsKnownUntilItsLeaseEnds(t *testing.T) {
	c := &Client{}
	parted(c, 10, 30, 20, 40, 10)
	for _, n := range []uint64{5, 10, 20, 30, 40, 50} {
		for _, now := range []Time{10, 19, 20, 29, 30, 39, 40} {
			want := Time(n) > now && slices.Contains([]uint64{20, 30, 40}, n)
			if c.hasPartedFrom(ID{N: n}, Now{Time: now}) != want {
				t.Errorf("%d at %d: it is not %v that it is known", n, now, want)
			}
		}
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
	if parted(c, 200_000, 200_500); !c.hasPartedFrom(ID{N: 200_500}, Now{Time: 200_000}) {
		t.Error("the last one is not known")
	}
	for n := Time(300_000); cap(c.partings) > fewPartings; n++ { // their memory, too
		if parted(c, n, uint64(n)+1); n > 301_000 {
			t.Fatalf("there is room for %d", cap(c.partings))
		}
	}
}

func TestTokens(t *testing.T) {
	some := tokens{reserved: 16, left: 1, current: 3}
	for _, c := range []struct {
		name    string
		tokens  tokens
		happens func(*tokens)
		then    tokens
	}{
		{"the first of the tokens is that of the hold", tokens{reserved: 1}, func(k *tokens) { k.take(20, 16) }, tokens{16, 15, 5}},
		{"a lock without tokens takes none", tokens{}, func(k *tokens) { k.take(20, 16) }, tokens{}},
		{"an answer without a token brings none", some, func(k *tokens) { k.take(0, 1) }, some},
		{"nor one without a number", some, func(k *tokens) { k.take(20, 0) }, some},
		{"a message brings tokens", tokens{reserved: 1}, func(k *tokens) { k.takeFrom(Message{Token: 3, Tokens: 3}) }, tokens{3, 2, 1}},
		{"but not more than there can be", tokens{reserved: 1}, func(k *tokens) { k.takeFrom(Message{Token: 3, Tokens: 4}) }, tokens{reserved: 1}},
		{"nor more than a tenure reserves", tokens{reserved: 1}, func(k *tokens) { k.take(maxTokens+9, maxTokens+1) }, tokens{reserved: 1}},
	} {
		if c.happens(&c.tokens); c.tokens != c.then {
			t.Errorf("%s: %+v, not %+v", c.name, c.tokens, c.then)
		}
	}
	for k, next := range map[tokens]uint32{{}: 1, {reserved: 4}: 1, {16, 15, 5}: 16, {16, 14, 6}: 32, {maxTokens, 0, maxTokens}: maxTokens} {
		if k.reserveNext() != next {
			t.Errorf("%+v: the next tenure reserves %d, not %d", k, k.reserveNext(), next)
		}
	}
}
