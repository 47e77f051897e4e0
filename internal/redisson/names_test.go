package redisson_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Keys, channels and their braces have to be the same bytes on both sides, and the
// slot with them: a waiter on another channel is not woken.
func TestNamesOfAnyKindMeanTheSameToBothSides(t *testing.T) {
	names := []string{
		"a",
		"orders:42",
		"orders 42 ",
		"{orders}:42",
		"42:{orders}:{items}",
		"a{b",
		"a}b",
		"}{",
		"{}",
		`quoted"and\escaped`,
		"naïve",
		"заказ:42",
		"注文42",
		"🔒",
		"line\nfeed\ttab",
	}
	withBoth(t, setting{}, func(s *scene) {
		golang, java := s.golang(), s.java.Thread("one")
		for _, name := range names {
			woken := wakeUp(s, golang, java, name) + wakeUp(s, java, golang, name+name)
			assert.Less(s.t, woken, fallback, "%q", name)
		}
	})
}
