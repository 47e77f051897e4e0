package redistest_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

func TestAFailureIsTheErrorOfTheAttemptAndCloseCleansUp(t *testing.T) {
	p := new(redistest.Program)
	why := errors.New("why")
	dir := ""
	err := redistest.Attempt(func() {
		dir = p.TempDir()
		p.Fatal(why)
	})
	require.ErrorIs(t, err, why)
	require.DirExists(t, dir)
	assert.PanicsWithValue(t, "else", func() { _ = redistest.Attempt(func() { panic("else") }) })
	p.Close()
	assert.NoDirExists(t, dir)
}
