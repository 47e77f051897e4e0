// Package redisson_test is about the form of what Redisson reads and writes, and its own tests of locks. Package
// internal/redisson has the real one.
package redisson_test

import (
	"testing"

	"github.com/go-rlock/rlock/rlock/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }
