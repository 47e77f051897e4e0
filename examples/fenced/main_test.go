package main_test

import (
	"path/filepath"
	"testing"

	"github.com/go-rlock/rlock/examples/internal/story"
)

func TestTheExampleProvesItsClaim(t *testing.T) {
	story.Run(t, filepath.Join(story.Build(t, "."), "fenced"), "=> the balance is 180, as it should be: the stale write was refused")
}
