package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-rlock/rlock/lease"
)

func TestDriftIsAHundredthTwoMillisecondsAndATick(t *testing.T) {
	assert.Equal(t, 312*time.Millisecond, lease.Drift(30*time.Second, 10*time.Millisecond))
	assert.Equal(t, 2*time.Millisecond, lease.Drift(0, 0))
}
