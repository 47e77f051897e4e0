package redistest_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// childRole makes this test program a child that does what its input says.
const childRole = "REDISTEST_ROLE=1"

// obey is what such a child does.
func obey() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		switch lines.Text() {
		case "die":
			fmt.Println("gone")
			panic("as I was told")
		case "linger":
			select {}
		case "shout":
			fmt.Println(strings.Repeat("a", 17<<20))
		default:
			fmt.Println(lines.Text())
		}
	}
}

func converse(t *testing.T) *redistest.Talk {
	t.Helper()
	self, err := redistest.Self(childRole)
	require.NoError(t, err)
	talk, err := redistest.Converse(self)
	require.NoError(t, err)
	t.Cleanup(talk.Kill)
	return talk
}

func TestEachLineIsAnsweredAndTheLastWordsAreHeard(t *testing.T) {
	talk := converse(t)
	for _, line := range []string{"one", "two"} {
		require.NoError(t, talk.Tell(line))
		answer, err := talk.Hear(time.Minute)
		require.NoError(t, err)
		assert.Equal(t, line, answer)
	}
	_, err := talk.Hear(time.Millisecond)
	require.ErrorContains(t, err, "not answered for 1ms")

	require.NoError(t, talk.Tell("die"))
	redistest.Await(t, talk.Gone())
	answer, err := talk.Hear(time.Minute)
	require.NoError(t, err)
	assert.Equal(t, "gone", answer)
	_, err = talk.Hear(time.Minute)
	assert.ErrorContains(t, err, "panic: as I was told")
}

func TestAProcessThatIsSuspendedOrDeafIsKilled(t *testing.T) {
	talk := converse(t)
	require.NoError(t, talk.Suspend())
	talk.Kill()
	talk.Kill()
	_, err := talk.Hear(time.Minute)
	assert.ErrorIs(t, err, redistest.ErrKilled)

	talk = converse(t)
	require.NoError(t, talk.Tell("linger"))
	assert.False(t, talk.Process.End(time.Millisecond))
	talk = converse(t)
	assert.True(t, talk.Process.End(time.Minute), "it ends with its input")
}

func TestOneThatSaysMoreThanIsReadIsEnded(t *testing.T) {
	talk := converse(t)
	require.NoError(t, talk.Tell("shout"))
	_, err := talk.Hear(time.Minute)
	assert.ErrorIs(t, err, bufio.ErrTooLong)
}

func TestAProgramThatIsNotThereIsAnError(t *testing.T) {
	self, err := redistest.Self(childRole)
	require.NoError(t, err)
	self.Path = "/nowhere"
	_, err = redistest.Converse(self)
	assert.ErrorIs(t, err, os.ErrNotExist)
}
