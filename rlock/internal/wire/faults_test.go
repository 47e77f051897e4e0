package wire_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"

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
