package wire_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

func TestAnAnswerIsReadAsItWasWritten(t *testing.T) {
	id := wire.NewID().Prefix
	uses := []inspect.Use{
		{Name: "orders:42", Kind: "plain", Owner: 7, Goroutine: 7, Waits: true, Since: time.UnixMilli(1700000000123)},
		{Name: "two\nlines \x00", Kind: "read", Owner: 1<<56 + 3, Since: time.UnixMilli(1), PartOf: "a,b", Site: inspect.Site{Function: "main.f", File: "main.go", Line: 7}},
		{Name: "no UTF-8: \xff\xfe", Kind: "write", Since: time.UnixMilli(0)},
	}
	at := time.UnixMilli(17)
	a, err := wire.DecodeAnswer(wire.EncodeAnswer(id, at, uses))
	require.NoError(t, err)
	assert.Equal(t, uses, a.Uses)
	assert.Equal(t, id, a.Client)
	assert.Equal(t, at, a.At)
	assert.False(t, a.Cut)

	none, err := wire.DecodeAnswer(wire.EncodeAnswer(id, at, nil))
	require.NoError(t, err)
	assert.Empty(t, none.Uses)
	assert.False(t, none.Cut)
}

func TestAnAnswerHasABound(t *testing.T) {
	id := wire.NewID().Prefix
	var many []inspect.Use
	at := time.UnixMilli(0)
	for i := range 100_000 {
		many = append(many, inspect.Use{Name: fmt.Sprint("lock:", i), Since: at})
	}
	text := wire.EncodeAnswer(id, at, many)
	a, err := wire.DecodeAnswer(text)
	require.NoError(t, err)
	assert.True(t, a.Cut)
	assert.Equal(t, many[:500], a.Uses)

	long := strings.Repeat("\x01", 60<<10)
	text = wire.EncodeAnswer(id, at, []inspect.Use{many[0], {Name: long}, many[1]})
	assert.LessOrEqual(t, len(text), 64<<10)
	a, err = wire.DecodeAnswer(text)
	require.NoError(t, err)
	assert.True(t, a.Cut)
	assert.Equal(t, many[:2], a.Uses, "one that does not fit is left out, and no other")

	_, err = wire.DecodeAnswer(text + strings.Repeat("\n", 64<<10))
	require.Error(t, err)
	_, err = wire.DecodeAnswer(wire.EncodeAnswer(id, at, many[:500]) + `{"lock":"one more"}` + "\n")
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
	f.Add(wire.EncodeAnswer(wire.NewID().Prefix, time.Now(), []inspect.Use{{Name: "orders", Owner: 1}, {Name: "\xff", Waits: true}}))
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
