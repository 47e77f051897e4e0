package testbed

import (
	"context"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
)

// Passing are the errors of a server that may recover.
var Passing = []string{
	"LOADING Redis is loading the dataset in memory",
	"READONLY You can't write against a read only replica.",
	"OOM command not allowed when used memory > 'maxmemory'.",
	"CLUSTERDOWN The cluster is down",
	"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
	"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
	"TRYAGAIN Multiple keys request during rehashing of slot",
	"NOREPLICAS Not enough good replicas to write.",
	"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
	"ERR max number of clients reached",
	"ERR Error running script (call to f_ab): @user_script:9: @user_script: 9: -OOM command not allowed when used memory > 'maxmemory'.",
}

// Unserved is logged of calls that wait while Redis refuses them, maybe for good: it is a
// replica, or full.
const Unserved = "rlock: Redis does not serve the calls for a lock, which go on trying"

// A counter is protected by a lock. It has no mutex of its own: the race detector and the
// counts find two sections that overlap.
type counter struct {
	t  *testing.T
	N  int
	in bool
}

func NewCounter(t *testing.T) *counter { return &counter{t: t} }

// Section takes the lock, increments the counter, and unlocks.
func (c *counter) Section(ctx context.Context, lock *rlock.Lock, takes time.Duration) error {
	if err := lock.Lock(ctx); err != nil {
		return err
	}
	c.Enter(takes)
	return lock.Unlock(ctx)
}

func (c *counter) Enter(takes time.Duration) {
	assert.False(c.t, c.in, "two sections overlap")
	c.in = true
	n := c.N
	time.Sleep(takes)
	c.N = n + 1
	c.in = false
}
