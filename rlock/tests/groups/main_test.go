// Package groups_test is about locks over several locks and servers: multi and red.
package groups_test

import (
	"testing"

	"github.com/go-rlock/rlock/rlock/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }
