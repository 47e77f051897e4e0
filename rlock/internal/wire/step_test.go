package wire_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

func TestTheAnswersToAnAcquire(t *testing.T) {
	redis := open(t)
	for _, test := range []struct {
		reply  string
		tokens uint64
		answer wire.Answer
		fails  bool
	}{
		{"false", 0, wire.Answer{Granted: true}, false},
		{"'7'", 3, wire.Answer{Granted: true, Counter: 7, Window: -1}, false},
		{"{29000, 'them:1'}", 0, wire.Answer{TTL: 29000, Holder: "them:1", Window: -1}, false},
		{"{-1, ''}", 1, wire.Answer{TTL: -1, Window: -1}, false},
		{"'2'", 3, wire.Answer{}, true},   // fewer tokens than reserved
		{"'x'", 1, wire.Answer{}, true},   // not a number
		{"false", 1, wire.Answer{}, true}, // granted without a token
		{"{1}", 0, wire.Answer{}, true},
		{"1", 0, wire.Answer{}, true},
	} {
		a, err := wire.ReadAcquire(reply(t, redis, test.reply), test.tokens)
		if test.fails {
			assert.Error(t, err, test.reply)
			continue
		}
		require.NoError(t, err, test.reply)
		assert.Equal(t, test.answer, a, test.reply)
	}
}

func TestTheAnswersToAStep(t *testing.T) {
	redis := open(t)
	for _, test := range []struct {
		reply  string
		tokens uint64
		answer wire.Answer
		fails  bool
	}{
		{"{1, -1, '', -2, ''}", 0, wire.Answer{Left: 1, TTL: -1, Window: -2, HeldBack: -1, Granted: true}, false},
		{"{0, 50, 'them', 9, 2}", 0, wire.Answer{TTL: 50, Holder: "them", Window: 9, HeldBack: -1, Position: wire.FirstPosition}, false},
		{"{0, 50, 'them', -2, 0}", 4, wire.Answer{TTL: 50, Holder: "them", Window: -2, HeldBack: -1, Position: wire.NoPosition}, false},
		{"{0, 50, 'them', -2, 1, 900}", 0, wire.Answer{TTL: 50, Holder: "them", Window: -2, HeldBack: 900, Position: wire.SomePosition}, false},
		{"{0, 50, 'them', -2, 1, 'x'}", 0, wire.Answer{}, true},
		{"{0, -1, '', -2, '12'}", 4, wire.Answer{TTL: -1, Window: -2, HeldBack: -1, Granted: true, Counter: 12}, false},
		{"{0, -1, '', -2, '3'}", 4, wire.Answer{}, true}, // fewer tokens than reserved
		{"{0, -1, '', -2}", 0, wire.Answer{}, true},
		{"{'x', -1, '', -2, 1}", 0, wire.Answer{}, true},
		{"{0, -1, {}, -2, 1}", 0, wire.Answer{}, true},
		{"{0, 50, 'them', -2, -1}", 0, wire.Answer{TTL: 50, Holder: "them", Window: -2, HeldBack: -1, Position: wire.FullPosition}, false},
		{"{0, 50, 'them', -2, {2, 1, 3}}", 0, wire.Answer{TTL: 50, Holder: "them", Window: -2, HeldBack: -1, Position: wire.FirstPosition, Tickets: 3}, false},
		// There is no such position.
		{"{0, 50, 'them', -2, 3}", 0, wire.Answer{}, true},
		{"{0, 50, 'them', -2, -2}", 0, wire.Answer{}, true},
		{"{0, 50, 'them', -2, {3, 1, 3}}", 0, wire.Answer{}, true},
		{"{0, 50, 'them', -2, {-2, 1, 3}}", 0, wire.Answer{}, true},
		{"7", 0, wire.Answer{}, true},
	} {
		a, err := wire.ReadStep(reply(t, redis, test.reply), test.tokens)
		if test.fails {
			assert.Error(t, err, test.reply)
			continue
		}
		require.NoError(t, err, test.reply)
		assert.Equal(t, test.answer, a, test.reply)
	}
}

func TestTheMessagesToAClient(t *testing.T) {
	const u = "0123abcd-0123-8123-8123-0123456789ab:1"
	for message, notice := range map[string]wire.Notice{
		"+" + u + "   x":                      {Granted: true, Ticket: u, Lock: "x"},
		"+" + u + " 9 2 x y ":                 {Granted: true, Ticket: u, Lock: "x y ", Counter: 9, Reserved: 2},
		"+" + u + " 2 9 x":                    {Granted: true, Ticket: u, Lock: "x"}, // an impossible number of tokens
		"+" + u + " 9 0 x":                    {Granted: true, Ticket: u, Lock: "x"},
		"+" + u + " 18446744073709551616 1 x": {Granted: true, Ticket: u, Lock: "x"},
		"?" + u + " x":                        {Ticket: u, Lock: "x"},
		"=" + u + " 3 x yan answer ":          {Answered: true, Ticket: u, Lock: "x y", Answer: "an answer "},
		"=" + u + " 1 x":                      {Answered: true, Ticket: u, Lock: "x"},
	} {
		n, ok := wire.ParseNotice(message)
		assert.True(t, ok, message)
		assert.Equal(t, notice, n, message)
	}
	for _, message := range []string{"", "+", "?", "+" + u, "+" + u + " 1 1", "?" + u, "0", u + " x", "+u:1   x", "?u:1 x", "=", "=" + u, "=" + u + " 2 x", "=" + u + " -1 x", "=" + u + " x x", "=u:1 1 x"} {
		_, ok := wire.ParseNotice(message)
		assert.False(t, ok, message)
	}
}

// lock(Long.MAX_VALUE, MILLISECONDS) is possible in Java.
func TestAForeignLeaseMayBeLongerThanADuration(t *testing.T) {
	assert.Equal(t, 5*time.Second, wire.Milliseconds(5000))
	assert.InDelta(t, float64(math.MaxInt64), wire.Milliseconds(31556952000000000), float64(time.Millisecond))
}
