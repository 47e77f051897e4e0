package core

import "testing"

func TestTimes(t *testing.T) {
	for _, c := range []struct{ got, want Time }{
		{Time(5).After(3), 8}, {Time(5).After(Forever), Never}, {Never.After(3), Never}, {Never.After(-3), Never},
		{Now{5, 50}.At(53), 8}, {Now{5, 50}.At(47), 2}, {Now{5, 50}.At(NeverSafe), Never},
	} {
		if c.got != c.want {
			t.Errorf("%d, not %d", c.got, c.want)
		}
	}
	for _, c := range []struct{ got, want SafeTime }{
		{SafeTime(5).After(3), 8}, {SafeTime(5).After(Forever), NeverSafe}, {NeverSafe.After(3), NeverSafe}, {NeverSafe.After(-3), NeverSafe},
	} {
		if c.got != c.want {
			t.Errorf("%d, not %d", c.got, c.want)
		}
	}
}
