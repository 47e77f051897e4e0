package terms

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A handle counts as dropped only if its hold lasts.
func TestAHoldIsDroppedAsLongAsItIsHeld(t *testing.T) {
	var hold HoldContext
	life := new(Life)
	hold.Begin(t.Context(), life)
	assert.False(t, life.IsDropped())
	life.Drop()
	assert.True(t, life.IsDropped())
	hold.End(errors.New("released"))
	assert.False(t, life.IsDropped())
}
