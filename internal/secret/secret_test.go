package secret_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/go-rlock/rlock/internal/secret"
)

func TestTheNameOfTheUserIsHidden(t *testing.T) {
	assert.Equal(t, "NOPERM the user has no permissions to run the 'get' command",
		secret.HideUser("NOPERM User bob-42 has no permissions to run the 'get' command"))
	assert.Equal(t, "WRONGTYPE Operation against a key", secret.HideUser("WRONGTYPE Operation against a key"))
}
