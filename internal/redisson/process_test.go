package redisson_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/go-rlock/rlock/internal/redisson"
)

func TestWithoutJavaTheErrorSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", "")
	_, err := redisson.Start(redisson.Config{Version: "never built"})
	assert.ErrorIs(t, err, redisson.ErrNoJava)
	assert.ErrorContains(t, err, "install")
}
