// Package storms_test is about exclusion and liveness under load, and under random faults of all sorts at once.
package storms_test

import (
	"testing"

	"github.com/go-rlock/rlock/rlock/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }
