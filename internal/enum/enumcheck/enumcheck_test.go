package enumcheck_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/enum"
	"github.com/go-rlock/rlock/internal/enum/enumcheck"
)

// product are the folders whose switches are checked: all that ships, and the model of the scripts.
var product = []string{
	"rlock/internal/core", "rlock/internal/explore/server",
	"lease", "pubsub", "waitqueue",
	"rlock", "rlock/elect", "rlock/inspect", "rlock/once", "rlock/redisson",
	"rlock/internal/diag", "rlock/internal/driver", "rlock/internal/group", "rlock/internal/losses",
	"rlock/internal/task", "rlock/internal/terms", "rlock/internal/wire",
}

// No switch of the product takes a value that it does not name for another one.
func TestASwitchOverAnEnumPanicsByDefault(t *testing.T) {
	var dirs []string
	for _, dir := range product {
		dirs = append(dirs, "../../../"+dir)
	}
	faults, err := enumcheck.Switches(dirs...)
	require.NoError(t, err)
	assert.Empty(t, faults)
}

func TestASwitchThatDoesNotPanicIsFound(t *testing.T) {
	faults, err := enumcheck.Switches("testdata/paint", "testdata/room")
	require.NoError(t, err)
	var found []string
	for _, fault := range faults {
		_, of, _ := strings.Cut(fault, ": ")
		found = append(found, of)
	}
	assert.Equal(t, []string{
		"a switch over paint.Color does not panic by default",
		"a switch over paint.Tin does not panic by default",
		"a switch over paint.Gloss does not panic by default",
		"a switch over paint.Color does not panic by default",
	}, found)
	assert.Contains(t, faults[3], "room.go:6:")
}

func TestAFolderWithoutASwitchIsAnError(t *testing.T) {
	_, err := enumcheck.Switches("testdata/room")
	require.Error(t, err, "its enum is of a package that is not read")
	_, err = enumcheck.Switches("testdata")
	require.Error(t, err)
}

type Color uint8

func (c Color) String() string { return enum.Name(c, "Color", "Red", "Blue", "Green") }

type Gloss int

func (g Gloss) String() string { return enum.Name(g+1, "Gloss", "Dull", "Silken", "Bright") }

func TestAWrongNameIsFound(t *testing.T) {
	faults, err := enumcheck.Names("testdata/paint", map[string]func(int) string{"Color": enumcheck.Name[Color], "Gloss": enumcheck.Name[Gloss], "Tin": nil})
	require.NoError(t, err)
	assert.Equal(t, []string{
		`Color 1 is called "Blue", and is Green`,
		`Color 2 is called "Green", and is Blue`,
		`Gloss 1 is called "Bright", and is none: "Gloss(1)"`,
		"Tin is no enum",
	}, faults)
	faults, err = enumcheck.Names("testdata/paint", nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"the test knows no names of Color", "the test knows no names of Gloss"}, faults)
	_, err = enumcheck.Names("testdata", nil)
	require.Error(t, err)
}
