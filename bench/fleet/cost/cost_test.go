package cost_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-rlock/rlock/bench/fleet/cost"
	"github.com/go-rlock/rlock/internal/core"
)

func TestEachCommandHasItsCost(t *testing.T) {
	table := cost.Table{
		Command: 1000, Message: 100, Acquire: 1, Refused: 2, Join: 3, JoinFirst: 4, JoinFree: 5, Look: 6, Leave: 7, LeaveNext: 8, LeaveJoin: 9, Mirror: 10,
	}
	joins := core.Ticket{ID: core.ID{N: 1}}
	for _, c := range []struct {
		op       core.Op
		joins    core.Ticket
		found    core.Found
		messages int
		want     time.Duration
	}{
		{op: core.Acquire, found: core.Holds, want: 1001},
		{op: core.Acquire, want: 1002},
		{op: core.Acquire, messages: 1, want: 1102},
		{op: core.Join, found: core.Waits, want: 1003},
		{op: core.Join, found: core.First, want: 1004},
		{op: core.Join, found: core.Holds, want: 1005},
		{op: core.Look, found: core.Waits, want: 1006},
		{op: core.Look, found: core.Holds, want: 1006},
		{op: core.Leave, want: 1007},
		{op: core.Leave, messages: 1, want: 1108},
		{op: core.Leave, joins: joins, found: core.Waits, messages: 1, want: 1109},
		{op: core.Mirror, found: core.Holds, want: 1010},
	} {
		assert.Equal(t, c.want, table.Of(&core.Command{Op: c.op, Joins: c.joins}, &core.Reply{Found: c.found}, c.messages), c)
	}
	for _, r := range table.Rows() {
		assert.NotEmpty(t, r.Name)
	}
}
