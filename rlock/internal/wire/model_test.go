package wire_test

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// The model of package rlock/internal/explore/server against the scripts. Each round is a lock of its own, and random commands.
func TestTheModelIsTheScripts(t *testing.T) {
	manyCommands(t)
	commands := 60_000
	if testing.Short() {
		commands = 600
	}
	gc := debug.SetGCPercent(400) // most of the work is short-lived garbage
	t.Cleanup(func() { debug.SetGCPercent(gc) })
	for _, k := range modelKinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			c := compare(t, newEmbedded(t), k)
			for n, done := uint64(0), 0; done < commands/len(modelKinds); n++ {
				k, difference := c.round(n)
				require.Empty(t, difference, "round %d", n)
				done += k
			}
		})
	}
}

func TestTheModelIsTheScriptsOnAServer(t *testing.T) {
	manyCommands(t)
	commands := 20_000
	if testing.Short() {
		commands = 2_000
	}
	p := newProcess(t)
	for _, k := range modelKinds {
		t.Run(k.name, func(t *testing.T) {
			c := compare(t, p, k)
			for n, done := uint64(0), 0; done < commands/len(modelKinds); n++ {
				k, difference := c.round(n)
				require.Empty(t, difference, "round %d", n)
				done += k
			}
		})
	}
}

// manyCommands skips a test that sends thousands of commands, one after the other, under the race detector.
func manyCommands(t *testing.T) {
	t.Helper()
	if redistest.UnderRace {
		t.Skip("not with the race detector")
	}
}
