package contender

import (
	"os/exec"

	"github.com/go-rlock/rlock/internal/redisson"
)

// Redisson is the real one, in Java. Its workers are JVMs, which take and free
// locks 10 000 times (2 000 with -quick) before they are first measured.
func Redisson() Contender {
	return Contender{
		Name:      "redisson",
		About:     "Redisson " + string(redisson.V4) + " (Java), all defaults; its JVMs are warmed up",
		Peer:      true,
		Wakes:     "pub/sub",
		Reentrant: true,
		Renews:    true,
		// It sends a DEL of the unlock latch, but so does its script; that sets the
		// latch once for each of them, and the client sends no SET.
		Sends: []string{"evalsha", "eval", "script|load", "subscribe", "unsubscribe", "set"},
		Key:   plain,
		Program: func() (*exec.Cmd, error) {
			return redisson.Command(redisson.V4, "rlock.bench.Main", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
		},
		Does: []string{"loop", "nest", "handover", "hold"},
	}
}
