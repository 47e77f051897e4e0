package enum_test

import (
	"fmt"
	"testing"

	"github.com/go-rlock/rlock/internal/enum"
)

type state int

const (
	idle state = iota
	busy
)

func (s state) String() string { return enum.Name(s, "state", "idle", "busy") }

func ExampleName() {
	fmt.Println(idle, busy, state(7), state(-1))
	// Output: idle busy state(7) state(-1)
}

func TestANameAllocatesNothing(t *testing.T) {
	s := busy
	if n := testing.AllocsPerRun(100, func() { _ = s.String() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
