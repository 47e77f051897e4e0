// Package losses_test is about how long a hold is valid, how it is renewed, and that its loss is told in time and
// remembered.
package losses_test

import (
	"testing"

	"github.com/go-rlock/rlock/rlock/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }
