// Package programs_test runs random programs over the whole face: see package internal/programs.
//
//	go test ./rlock/tests/programs                                the gate
//	go test ./rlock/tests/programs -programs 5000 -first 1000     more of them
//	go test ./rlock/tests/programs -seed 42 -shrink 400           one, and the part of it that still fails
package programs_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/inmemory"
	"github.com/go-rlock/rlock/internal/programs"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
)

var (
	count  = flag.Int("programs", 0, "how many programs to run; 0: those of the gate")
	first  = flag.Uint64("first", 0, "the seed of the first program")
	seed   = flag.Int64("seed", -1, "the seed of the only program")
	only   = flag.String("only", "", "the operations of the only program that are kept, as 3,7; all by default")
	shrink = flag.Int("shrink", 0, "leave out operations of a program that fails, by so many tries")
	show   = flag.Bool("show", false, "print each program, and what all have called")
)

func TestMain(m *testing.M) { testbed.Main(m) }

// gate is how many programs the gate runs: a tenth with the race detector, a fifth with -short.
func gate() int {
	switch {
	case *count > 0:
		return *count
	case testbed.Fewer():
		return 20
	case testing.Short():
		return 40
	}
	return 200
}

// In virtual time, on the embedded server, with faults of the network, of the server and of its
// operators.
func TestProgramsOverTheWholeFace(t *testing.T) {
	redistest.WithoutServer(t)
	face := programs.NewFace()
	if *seed >= 0 {
		one(t, uint64(*seed), face)
		return
	}
	each := uint64(runtime.GOMAXPROCS(0)) // a bubble is little more than one thread
	t.Run("programs", func(t *testing.T) {
		for part := range each {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				for n := *first + part; n < *first+uint64(gate()); n += each {
					t.Run(fmt.Sprint(n), func(t *testing.T) { one(t, n, face) })
				}
			})
		}
	})
	if *show {
		for _, name := range slices.Sorted(maps.Keys(face.Counts())) {
			t.Log(face.Counts()[name], name)
		}
	}
	if *first == 0 && gate() >= 200 && !t.Failed() {
		covers(t, face.Counts())
	}
}

// one runs one program, and shrinks it if it fails.
func one(t *testing.T, seed uint64, face *programs.Face) {
	p := programs.Generate(seed)
	if *only != "" {
		var kept []int
		require.NoError(t, json.Unmarshal([]byte("["+*only+"]"), &kept))
		p = p.Keep(kept)
	}
	if *show {
		t.Log(p)
	}
	problems := virtual(t, p, face)
	if len(problems) > 0 && *shrink > 0 {
		p = programs.Shrink(p, *shrink, func(q *programs.Program) bool { return len(virtual(t, q, programs.NewFace())) > 0 })
		problems = virtual(t, p, programs.NewFace())
		t.Log(p)
	}
	for _, problem := range problems[:min(len(problems), 6)] {
		t.Errorf("%s: %s", p.Again(), problem)
	}
}

// virtual runs a program in a bubble of virtual time, on embedded servers.
func virtual(t *testing.T, p *programs.Program, face *programs.Face) []string {
	var r *programs.Run
	synctest.Test(t, func(*testing.T) {
		ground := programs.Ground{Virtual: true}
		for range p.World.Servers {
			s := inmemory.New()
			defer s.Close()
			ground.Servers = append(ground.Servers, embedded(s))
		}
		r = programs.Execute(p, ground, face)
	})
	return r.Problems()
}

func embedded(s *inmemory.Server) programs.Server {
	option := s.Options()
	option.DialCtxFn = nil
	option.RingScaleEachConn, option.ReadBufferEachConn, option.WriteBufferEachConn = 8, 16<<10, 16<<10
	return programs.Server{
		Option: option,
		Dial:   func(string) (net.Conn, error) { return s.Dial() },
		Refuse: func(text string) {
			s.Refuse(func(command string, _ ...string) string {
				if command == "eval" || command == "evalsha" {
					return text
				}
				return ""
			})
		},
	}
}
