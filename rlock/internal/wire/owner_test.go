package wire_test

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

func TestEachTenureHasAUUIDOfVersion8ThatBeginsWithItsClient(t *testing.T) {
	id := wire.NewID()
	require.Len(t, id.Prefix, wire.ClientLen)
	seen := make(map[string]bool)
	for range 100_000 {
		owner := id.Owner(42)
		text, number := owner[:wire.TenureLen-1], owner[wire.TenureLen:]
		parsed, err := uuid.Parse(text)
		require.NoError(t, err)
		assert.Equal(t, uuid.Version(8), parsed.Version())
		assert.Equal(t, uuid.RFC4122, parsed.Variant())
		assert.Equal(t, id.Prefix, owner[:wire.ClientLen])
		assert.Equal(t, "42", number)
		assert.False(t, seen[text])
		seen[text] = true
	}
}

func TestTheNumberOfATenureIsReadFromItsOwner(t *testing.T) {
	id := wire.NewID()
	for i := range 1000 {
		number := id.Number()
		text := id.Text(number, uint64(i))
		read, ok := wire.NumberOf(text)
		require.True(t, ok, text)
		assert.Equal(t, number, read)
		assert.Equal(t, fmt.Sprint(i), text[wire.TenureLen:])
	}
	for _, text := range []string{"", "8888", uuid.NewString() + ":1", id.Prefix + "80zz-000000000000:1", id.Prefix + "8000x000000000000:1"} {
		_, ok := wire.NumberOf(text)
		assert.False(t, ok, text)
	}
}

func TestTheNumberOfPermitsIsReadFromTheTextOfAnOwner(t *testing.T) {
	id := wire.NewID()
	for _, owner := range []string{id.Owner(7), id.Owner(0)} {
		assert.Equal(t, owner, wire.WithMore(owner, 0))
		assert.Equal(t, owner+"*3", wire.WithMore(owner, 2))
		for _, more := range []int32{0, 1, 9, math.MaxInt32 - 1} {
			text := wire.WithMore(owner, more)
			read, n := wire.CutMore(text)
			assert.Equal(t, owner, read)
			assert.Equal(t, more, n)
			assert.Equal(t, wire.HasPassed(owner), wire.HasPassed(text))
			assert.True(t, wire.IsOurs(text) && wire.IsOwner(text))
			before, _ := wire.NumberOf(owner)
			number, ok := wire.NumberOf(text)
			assert.True(t, ok)
			assert.Equal(t, before, number)
		}
		for _, end := range []string{"*", "*0", "*1", "*-2", "*x", "*99999999999"} {
			read, n := wire.CutMore(owner + end)
			assert.Equal(t, owner, read)
			assert.Zero(t, n)
		}
	}
}

// The tenures of a client do not reveal the next one, nor earlier ones.
func TestTheUUIDsOfTenuresCannotBeGuessed(t *testing.T) {
	id := wire.NewID()
	number := func(owner string) *big.Int {
		n, ok := new(big.Int).SetString(strings.ReplaceAll(owner[wire.ClientLen:wire.TenureLen-1], "-", ""), 16)
		require.True(t, ok, owner)
		return n
	}
	const tenures = 10_000
	last, steps, bits := number(id.Owner(1)), make(map[string]bool), make([]int, 62)
	for range tenures {
		n := number(id.Owner(1))
		steps[new(big.Int).Sub(n, last).String()] = true
		for i := range bits {
			bits[i] += int(n.Bit(i))
		}
		last = n
	}
	assert.Len(t, steps, tenures, "no step from one to the next comes twice")
	for i, ones := range bits {
		assert.InDelta(t, tenures/2, ones, 6*tenures/2/100, "bit %d", i) // six standard deviations
	}
	assert.NotEqual(t, wire.NewID().Owner(1)[wire.ClientLen:], wire.NewID().Owner(1)[wire.ClientLen:], "each client has numbers of its own")
}
