package wire_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

func TestAnErrorThatIsNotRedisAnswerSaysWhetherTheCommandMayHaveRun(t *testing.T) {
	for _, test := range []struct {
		err   error
		fault wire.Fault
	}{
		{rueidis.ErrNoSlot, wire.NotNow}, // it was not sent: no node has the slot
		{fmt.Errorf("dial: %w", rueidis.ErrClosing), wire.NotNow},
		{wire.NotALock("status"), wire.Never},
		{errors.New("EOF"), wire.Unknown},
	} {
		fault, err := wire.Diagnose(test.err)
		assert.Equal(t, test.fault, fault, test.err)
		assert.ErrorIs(t, err, test.err)
	}
}

// A guard and a release catch the errors of a source, and raise them again.
func TestARefusalThatAScriptRaisesAgainIsOneOfAMissingRight(t *testing.T) {
	s := redistest.Standalone(t)
	require.NoError(t, do(t, openAt(t, s), "ACL", "SETUSER", "poor", "reset", "on", ">secret", "~*", "&*", "+@all", "-hmget").Error())
	poor := openWith(t, s, wire.NewID(), func(o *wire.Options) { o.Redis.Username, o.Redis.Password = "poor", "secret" })
	err := do(t, poor, "EVAL", "local done, reply = pcall(function() return redis.call('hmget', KEYS[1], 'a') end) if not done then error(reply, 0) end", "1", "key").Error()
	fault, err := wire.Diagnose(err)
	assert.Equal(t, wire.Never, fault)
	assert.ErrorIs(t, err, wire.ErrNoPermission)
}
