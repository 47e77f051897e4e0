package main

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/internal/redistest"
)

func TestALostReleaseIsFoundAndALockWithoutOwnersIsToo(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil || testing.Short() {
		t.Skip("it starts a redis-server, for some seconds")
	}
	addr, stop, err := redistest.Redis()
	require.NoError(t, err)
	defer stop()
	pairs := &pairs{config: contender.Config{Addr: addr, Lease: time.Second}}
	play := func(made contender.Contender, op operation, f fault) *outcome {
		one := &trial{outcome: &outcome{Library: made.Name, Operation: op, Fault: f, Nth: 1}, addr: addr, lease: time.Second, made: library{Contender: made}, pairs: pairs}
		one.play(t.Context())
		require.Empty(t, one.Problem)
		require.True(t, one.Met)
		return one.outcome
	}
	lost := play(contender.RLock(), unlocking, requestLost)
	assert.True(t, lost.Failed, "an unlock that is lost is told")
	assert.False(t, lost.Twice || lost.Forever)
	assert.True(t, play(contender.Broken(), locking, none).Twice, "a lock that does not exclude")
	repeated := play(contender.RLock(), locking, afterwards)
	assert.False(t, repeated.Failed || repeated.Twice || repeated.Forever)
}

func TestRedissonIsPlayedInJava(t *testing.T) {
	made := inJava()
	if _, err := exec.LookPath("redis-server"); err != nil || testing.Short() || made.Absent() != "" {
		t.Skip("it starts a redis-server and JVMs, for some seconds")
	}
	addr, stop, err := redistest.Redis()
	require.NoError(t, err)
	defer stop()
	pairs := &pairs{config: contender.Config{Addr: addr, Lease: time.Second}}
	defer pairs.close()
	for _, f := range []fault{none, requestLost} { // both with the same two JVMs
		one := &trial{outcome: &outcome{Library: made.Name, Operation: locking, Fault: f, Nth: 1}, addr: addr, lease: time.Second, made: library{made, true}, pairs: pairs}
		one.play(t.Context())
		require.Empty(t, one.Problem)
		require.True(t, one.Met)
		assert.Equal(t, f == requestLost, one.Failed)
		assert.False(t, one.Twice || one.Forever)
		assert.Len(t, pairs.idle[made.Name], 1)
	}
}

func TestTheWorstOfTheCasesIsTold(t *testing.T) {
	outcomes := []*outcome{
		{Library: "rlock", Operation: locking, Fault: late, Met: true},
		{Library: "rlock", Operation: locking, Fault: late, Met: true, Failed: true, Left: time.Second},
		{Library: "rlock", Operation: locking, Fault: late, Twice: true}, // not met
	}
	text, met := cell(outcomes, "rlock", locking, late)
	assert.Equal(t, "error, left 1.0 s", text)
	assert.Equal(t, 2, met)
}

func TestTheTableHasTheLibrariesInOrderAndTheOmissions(t *testing.T) {
	outcomes := []*outcome{
		{Library: "redsync", Operation: locking, Fault: doubled, Met: true},
		{Library: "redsync", Operation: locking, Fault: late, Met: true, Forever: true},
		{Library: "rlock", Operation: waiting, Fault: replyLost, Met: true},
	}
	text := resendTable(outcomes, time.Second, "redisson: no java")
	assert.Contains(t, text, "Left out: redisson: no java.")
	assert.Contains(t, text, "| redsync | lock | 1 |  |  |  | – |  |  | **for ever** |\n| rlock | wait | 1 |  |  | – |  |  |  |  |\n")
}

func TestATableThatThereIsNotIsRefused(t *testing.T) {
	assert.ErrorContains(t, play(t.Context(), nil), "guardedset or resend")
	assert.ErrorContains(t, play(t.Context(), []string{"else"}), "guardedset or resend")
}
