package programs_test

import (
	"flag"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/programs"
	"github.com/go-rlock/rlock/internal/redistest"
)

var real = flag.Int("real", 0, "how many programs to run on each sort of server, in real time; 0: one")

// The same programs in real time, on a server, behind Sentinel and in a Cluster. A machine may be
// busy, so the leases of the watchdogs are longer, and durations are not judged.
func TestProgramsOnServers(t *testing.T) {
	redistest.Slow(t)
	kinds := []redistest.Kind{redistest.KindStandalone, redistest.KindSentinel, redistest.KindCluster}
	for n := *first; n < *first+uint64(max(*real, 1)); n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			redistest.Over(t, kinds, func(t *testing.T, server *redistest.Server) {
				p := programs.Generate(3 * n) // which has one server
				p.World.Lease = 8 * time.Second
				if p.World.Servers != 1 {
					t.Fatalf("%d servers", p.World.Servers)
				}
				ground := programs.Ground{Servers: []programs.Server{{
					Option: server.Options(),
					Dial:   func(address string) (net.Conn, error) { return net.Dial("tcp", address) },
				}}}
				r := programs.Execute(p, ground, programs.NewFace())
				for _, problem := range r.Problems() {
					t.Errorf("-run OnServers//%s -first %d: %s", server.Kind, n, problem)
				}
			})
		})
	}
}
