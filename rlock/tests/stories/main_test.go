// Package stories_test has the stories of package rlock that are data: see TestStories.
package stories_test

import (
	"testing"

	"github.com/go-rlock/rlock/rlock/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }
