package driver

import (
	"errors"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/core"
)

// An acquire takes back what it has written. Another command that fails inside of its script may have done a part.
func TestTheErrorsOfRedisSayWhetherACommandHasRun(t *testing.T) {
	redis := redistest.Embedded(t).Client(t)
	const inside = " script: f_ab, on @user_script:12."
	for _, c := range []struct {
		op    core.Op
		reply string // "" for none
		fault core.Fault
	}{
		{core.Acquire, "", core.Unknown},
		{core.Acquire, "READONLY You can't write against a read only replica." + inside, core.NotRun},
		{core.Acquire, "ERR Error running script (call to f_ab): @user_script:9: @user_script: 9: -READONLY You can't write against a read only replica.", core.NotRun},
		{core.Acquire, "OOM command not allowed when used memory > 'maxmemory'.", core.NotRun},
		{core.Acquire, "NOPERM this user has no permissions to run the 'zcard' command" + inside, core.Fatal},
		{core.Acquire, "WRONGTYPE Operation against a key holding the wrong kind of value" + inside, core.Fatal},
		{core.Look, "NOPERM this user has no permissions to run the 'zcard' command", core.Fatal},
		{core.Look, "NOPERM this user has no permissions to run the 'zcard' command" + inside, core.Unknown},
		{core.Join, "READONLY You can't write against a read only replica." + inside, core.Unknown},
		{core.Join, "READONLY You can't write against a read only replica.", core.NotRun},
		{core.Mirror, "", core.Unknown},
		{core.Mirror, "NOPERM this user has no permissions to run the 'evalsha' command", core.NotRun},
		{core.Mirror, "WRONGTYPE Operation against a key holding the wrong kind of value" + inside, core.Fatal},
		{core.Leave, "NOPERM this user has no permissions to run the 'evalsha' command", core.NotRun},
		{core.Leave, "OOM command not allowed when used memory > 'maxmemory'." + inside, core.Unknown},
		{core.Leave, "WRONGTYPE Operation against a key holding the wrong kind of value", core.Fatal},
	} {
		err := errors.New("EOF")
		if c.reply != "" {
			err = redis.Do(t.Context(), redis.B().Eval().Script("return redis.error_reply(ARGV[1])").Numkeys(0).Arg(c.reply).Build()).Error()
			var said *rueidis.RedisError
			require.ErrorAs(t, err, &said)
		}
		assert.Equal(t, c.fault, faultOf(c.op, err), "%d: %s", c.op, c.reply)
	}
}
