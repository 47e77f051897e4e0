package core

import "testing"

func TestWhenAHoldIsPassedOn(t *testing.T) {
	for _, c := range []struct {
		name   string
		levels []Level
		result PartResult
	}{
		{"it is the only level", []Level{writes(1, 900)}, HasParted},
		{"it is renewed", []Level{writes(1, NeverSafe)}, HasParted},
		{"it is nested", []Level{writes(1, 900), writes(1, 800)}, NotAlone},
		{"another holds it", []Level{writes(2, 900)}, NothingHeld},
		{"none holds it", nil, NothingHeld},
		{"it is lost", []Level{writes(1, 90)}, NothingHeld},
	} {
		l := held(c.levels...)
		n := l.owner
		was, parted, result := l.Pass(1, Alone, nil, 10, at(100))
		if result != c.result {
			t.Errorf("%s: %d", c.name, result)
		}
		if result == HasParted && (was != c.levels[0] || parted != n || n.want != Parted || n.within != 10 || l.owner != nil || l.IsHeld()) {
			t.Errorf("%s: %+v", c.name, was)
		}
	}
}
