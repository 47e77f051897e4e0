package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

func TestAnAnswerIsReadAsItWasWritten(t *testing.T) {
	id := wire.NewID().Prefix
	uses := []wire.ClientUse{
		{Lock: "orders:42", Kind: "plain", Owner: 7, Goroutine: 7, Waits: true, Since: 1700000000123},
		{Lock: "two\nlines \x00", Kind: "read", Owner: 1<<56 + 3, Since: 1, PartOf: "a,b", Place: &wire.UsePlace{Function: "main.f", File: "main.go", Line: 7}},
		{Lock: "no UTF-8: \xff\xfe", Kind: "write"},
	}
	a, err := wire.DecodeAnswer(wire.EncodeAnswer(id, 17, uses))
	require.NoError(t, err)
	assert.Equal(t, uses, a.Uses)
	assert.Equal(t, id, a.Client)
	assert.EqualValues(t, 17, a.At)
	assert.False(t, a.Cut)

	none, err := wire.DecodeAnswer(wire.EncodeAnswer(id, 17, nil))
	require.NoError(t, err)
	assert.Empty(t, none.Uses)
	assert.False(t, none.Cut)
}

func TestAnAnswerHasABound(t *testing.T) {
	id := wire.NewID().Prefix
	var many []wire.ClientUse
	for i := range 100_000 {
		many = append(many, wire.ClientUse{Lock: fmt.Sprint("lock:", i)})
	}
	text := wire.EncodeAnswer(id, 1, many)
	a, err := wire.DecodeAnswer(text)
	require.NoError(t, err)
	assert.True(t, a.Cut)
	assert.Equal(t, many[:500], a.Uses)

	long := strings.Repeat("\x01", 60<<10)
	text = wire.EncodeAnswer(id, 1, []wire.ClientUse{many[0], {Lock: long}, many[1]})
	assert.LessOrEqual(t, len(text), 64<<10)
	a, err = wire.DecodeAnswer(text)
	require.NoError(t, err)
	assert.True(t, a.Cut)
	assert.Equal(t, many[:2], a.Uses, "one that does not fit is left out, and no other")

	_, err = wire.DecodeAnswer(text + strings.Repeat("\n", 64<<10))
	require.Error(t, err)
	_, err = wire.DecodeAnswer(wire.EncodeAnswer(id, 1, many[:500]) + `{"lock":"one more"}` + "\n")
	require.Error(t, err)
}

func TestAQuestionIsRecognized(t *testing.T) {
	id := wire.NewID()
	question, answers := wire.Question(id)
	read, ok := wire.ParseClientMessage(question.String())
	require.True(t, ok)
	require.True(t, read.Answerable())
	assert.True(t, strings.HasPrefix(read.Owner, id.Prefix), "the question names its client")
	assert.Equal(t, answers, wire.ClientMessage{Verb: wire.Answers, Owner: read.Owner}.String())
	another, _ := wire.Question(id)
	assert.NotEqual(t, question, another)

	question.Text = "2"
	assert.True(t, question.Answerable(), "a client with a later version can answer this one")
	for _, garbage := range []wire.ClientMessage{
		{Verb: wire.Forced, Owner: question.Owner, Text: "1"}, {Verb: wire.Asks, Owner: question.Owner, Text: "0"},
		{Verb: wire.Asks, Owner: question.Owner, Text: "x"}, {Verb: wire.Asks, Owner: "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7", Text: "1"},
		{Verb: wire.Asks, Owner: question.Owner + strings.Repeat("0", 100), Text: "1"},
	} {
		assert.False(t, garbage.Answerable(), "%s", garbage)
	}
}

// Any message is refused, or decoded within the bounds.
func FuzzDecodeAnswer(f *testing.F) {
	f.Add(wire.EncodeAnswer(wire.NewID().Prefix, 1, []wire.ClientUse{{Lock: "orders", Owner: 1}, {Lock: "\xff", Waits: true}}))
	f.Add(`{"v":1}` + "\n{}")
	f.Add(`{"v":2}`)
	f.Fuzz(func(t *testing.T, text string) {
		a, err := wire.DecodeAnswer(text)
		if err != nil {
			assert.Zero(t, a)
			return
		}
		assert.LessOrEqual(t, len(a.Uses), 500)
	})
}
