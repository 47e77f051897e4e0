package standin_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest/standin"
)

func TestAFailureIsTheErrorOfTheAttemptAndCloseCleansUp(t *testing.T) {
	stand := new(standin.Test)
	why := errors.New("why")
	dir := ""
	err := standin.Attempt(func() {
		dir = stand.TempDir()
		stand.Fatal(why)
	})
	require.ErrorIs(t, err, why)
	require.DirExists(t, dir)
	require.ErrorContains(t, standin.Attempt(func() { stand.Fatalf("at %d", 1) }), "at 1")
	assert.PanicsWithValue(t, "else", func() { _ = standin.Attempt(func() { panic("else") }) })
	stand.Close()
	assert.NoDirExists(t, dir)
}
