package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestADeadlineThatIsStoppedHandsOutContextsThatHaveEnded(t *testing.T) {
	d, now := deadline{patience: time.Hour}, time.Now()
	before := d.context(now)
	assert.NoError(t, before.Err())
	d.stop()
	assert.Error(t, before.Err())
	assert.Error(t, d.context(now).Err())
	assert.Error(t, d.context(now.Add(time.Minute)).Err(), "when another would be due")
	unused := deadline{patience: time.Hour}
	unused.stop()
	assert.Error(t, unused.context(now).Err())
}
