package main_test

import (
	"path/filepath"
	"testing"

	"github.com/go-rlock/rlock/examples/internal/story"
)

func TestTheExampleProvesItsClaim(t *testing.T) {
	story.Run(t, filepath.Join(story.Build(t, "."), "gocron"), "3 schedulers, and the job ran once per interval")
}
