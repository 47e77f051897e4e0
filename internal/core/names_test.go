package core

import (
	"fmt"
	"testing"
)

// Each value has a name of its own, and the value behind the last one has none.
func TestEachStateHasAName(t *testing.T) {
	for of, all := range map[string]struct {
		name func(int) fmt.Stringer
		len  int
	}{
		"want":    {func(i int) fmt.Stringer { return Want(i) }, int(wants)},
		"place":   {func(i int) fmt.Stringer { return Place(i) }, int(places)},
		"command": {func(i int) fmt.Stringer { return Op(i) }, int(ops)},
		"verdict": {func(i int) fmt.Stringer { return verdict(i) }, int(verdicts)},
		"attempt": {func(i int) fmt.Stringer { return attempt(i) }, int(triedAgain) + 1},
		"fault":   {func(i int) fmt.Stringer { return Fault(i) }, int(Behind) + 1},
		"purpose": {func(i int) fmt.Stringer { return Purpose(i) }, int(Forces) + 1},
		"outcome": {func(i int) fmt.Stringer { return Outcome(i) }, int(Done) + 1},
		"cause":   {func(i int) fmt.Stringer { return Cause(i) }, int(Unconfirmed) + 1},
	} {
		names := map[string]bool{}
		for i := range all.len {
			names[all.name(i).String()] = true
		}
		if len(names) != all.len {
			t.Errorf("%d names of the %d sorts of a %s", len(names), all.len, of)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("the %s %d has a name", of, all.len)
				}
			}()
			_ = all.name(all.len).String()
		}()
	}
}
