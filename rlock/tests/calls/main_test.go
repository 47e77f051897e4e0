// Package calls_test is about what every call promises for every kind of lock: Lock, TryLock, Do, Acquire and their
// ends by a context or Close, owners, names, leases, force, holds that are passed on, and guarded writes.
package calls_test

import (
	"testing"

	"github.com/go-rlock/rlock/rlock/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }
