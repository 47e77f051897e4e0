package once

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A kept value is for the callers that had asked when its look began. The order of two local times
// does not say which these are: both may be the same, as that of a look and of a Do after a Forget.
func TestAKeptValueIsForTheCallersBeforeItsLook(t *testing.T) {
	now := time.Now()
	f := &flight{g: &Group{ctx: t.Context()}}
	before, after := &caller{asked: now}, &caller{asked: now}
	assert.True(t, f.add(before))
	_, look := f.beginLook()
	assert.True(t, f.add(after))
	s, seen := &stored{at: 1, before: 1, until: 10}, reading{clock: 5, sent: now, look: look}
	before.floor, after.floor = 5, 5
	assert.True(t, before.takes(s, seen))
	assert.False(t, after.takes(s, seen), "it may have asked after a Forget that the look does not know")
	assert.True(t, f.hasLater(look), "for which there is another look")
	_, look = f.beginLook()
	seen.look = look
	assert.True(t, after.takes(s, seen))
	assert.False(t, f.hasLater(look))
	assert.False(t, after.takes(s, reading{}), "a message is no look")
}

// A clock that is not known, 0, bounds nothing.
func TestAnUnknownClockIsNoBound(t *testing.T) {
	s := &stored{at: 1, before: 1, until: 2, began: 1}
	assert.False(t, s.isFor(0) || s.isKept(0) || s.beganAfter(0) || s.wasForgotten())
	assert.False(t, s.isFor(1) || s.isKept(2) || s.beganAfter(1), "at the same time")
	assert.Equal(t, []int64{3, 3, 3, 0}, []int64{earlier(0, 3), earlier(3, 0), earlier(4, 3), earlier(0, 0)})
}
