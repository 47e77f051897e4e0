//go:build unix

package cli_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/cmd/rlock/internal/view"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/redisson"
)

func TestTheCommandShowsRedissonsSynchronizers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := redisson.New(s.client)
	downloads, jobs, started := c.PermitSemaphore("downloads"), c.Semaphore("jobs"), c.CountDownLatch("started")
	require.NoError(t, downloads.SetPermits(s.ctx, 3))
	permit, err := downloads.Acquire(s.ctx, time.Hour)
	require.NoError(t, err)
	require.NoError(t, jobs.Release(s.ctx, 4))
	set, err := started.TrySetCount(s.ctx, 2)
	require.NoError(t, err)
	require.True(t, set)

	code, stdout, stderr := s.run("", "ls")
	assert.Zero(t, code, stderr)
	assert.Regexp(t, `(?m)^downloads +RPermitExpirableSemaphore +2 +1 +- +0$`, stdout)
	assert.NotContains(t, stdout, "jobs", "it may be any number")
	code, stdout, _ = s.run("", "show", "jobs")
	assert.Zero(t, code)
	assert.Regexp(t, `(?m)^Number: +4 \(free permits, or the count\)$`, stdout)

	opened, acquired := make(chan error, 1), make(chan error, 1)
	go func() { opened <- started.Await(s.ctx) }()
	go func() { acquired <- jobs.Acquire(s.ctx, 5) }()
	require.Eventually(t, func() bool {
		_, stdout, _ = s.run("", "ls")
		return strings.Contains(stdout, "RCountDownLatch") && strings.Contains(stdout, "RSemaphore")
	}, hang, 10*time.Millisecond)
	assert.Regexp(t, `(?m)^jobs +RSemaphore +4 +- +- +1$`, stdout)
	assert.Regexp(t, `(?m)^started +RCountDownLatch +- +- +2 +1$`, stdout)
	_, stdout, _ = s.run("", "ls", "--waiting")
	assert.NotContains(t, stdout, "downloads")
	assert.Contains(t, stdout, "jobs")
	_, stdout, _ = s.run("", "ls", "st*")
	assert.NotContains(t, stdout, "jobs")
	assert.Contains(t, stdout, "started")

	_, stdout, _ = s.run("", "show", "downloads")
	assert.Regexp(t, `(?m)^Permits: +2 free, 1 taken$`, stdout)
	of := ` +\S+\[\d+\] +\S+:\d+$`
	if !redistest.Installed() {
		of = "" // the embedded server has no CLIENT LIST
	}
	assert.Regexp(t, `(?m)^`+permit.ID()+` +(1h0m0s|59m\d+s)`+of, stdout)
	_, stdout, _ = s.run("", "show", "started")
	assert.Regexp(t, `(?m)^Count: +2$`, stdout)
	_, stdout, _ = s.run("", "show", "jobs")
	assert.Regexp(t, `(?m)^Permits: +4 free; `, stdout)

	var shown view.Synchronizer
	_, stdout, _ = s.run("", "show", "--json", "downloads")
	require.NoError(t, json.Unmarshal([]byte(stdout), &shown), stdout)
	require.Len(t, shown.Taken, 1)
	assert.Equal(t, permit.ID(), shown.Taken[0].ID)
	if redistest.Installed() {
		assert.Equal(t, os.Getpid(), shown.Taken[0].PID)
	}
	require.NotNil(t, shown.Number)
	assert.EqualValues(t, 2, *shown.Number)
	_, stdout, _ = s.run("", "ls", "--json", "jobs")
	require.NoError(t, json.Unmarshal([]byte(stdout), &shown), stdout)
	assert.Equal(t, "RSemaphore", shown.Kind)

	require.NoError(t, jobs.Release(s.ctx, 1))
	require.NoError(t, <-acquired)
	_, err = started.Delete(s.ctx)
	require.NoError(t, err)
	require.NoError(t, <-opened)

	s.set("text", "no number")
	code, _, stderr = s.run("", "show", "text")
	assert.NotZero(t, code)
	assert.Contains(t, stderr, "text")
}
