// Package servers_test is about what Redis does to a client: connections, rights, refusals, outages, failovers,
// replicas and full servers.
package servers_test

import (
	"testing"

	"github.com/go-rlock/rlock/rlock/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }
