package main_test

import (
	"path/filepath"
	"testing"

	"github.com/go-rlock/rlock/examples/internal/story"
)

func TestTheExampleProvesItsClaim(t *testing.T) {
	story.Run(t, filepath.Join(story.Build(t, "."), "observed"), "and so have the metrics")
}
