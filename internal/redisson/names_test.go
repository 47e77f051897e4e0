package redisson_test

import (
	"github.com/stretchr/testify/assert"
)

// Keys, channels and their braces have to be the same bytes on both sides, and the
// slot with them: a waiter on another channel is not woken.
func names(s *scene) {
	golang, java := s.golang(), s.java.Thread("one")
	for _, name := range []string{
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
	} {
		woken := wakeUp(s, golang, java, name) + wakeUp(s, java, golang, name+name)
		assert.Less(s.t, woken, fallback, "%q", name)
	}
}
