package wire_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

func TestADeadlineOfTheClientSaysThatRedisDidNotAnswer(t *testing.T) {
	fault, err := wire.Diagnose(context.DeadlineExceeded)
	require.Equal(t, wire.Unknown, fault)
	require.NotErrorIs(t, err, context.DeadlineExceeded, "the deadline is not the caller's")
	require.ErrorContains(t, err, "no answer from Redis in time")
}
