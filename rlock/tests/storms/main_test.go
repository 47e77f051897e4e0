// Package storms_test is about exclusion and progress under load: thousands of waiters and of
// names. Package programs has faults.
package storms_test

import (
	"testing"

	"github.com/go-rlock/rlock/rlock/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }
