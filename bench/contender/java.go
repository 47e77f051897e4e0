package contender

import (
	"os/exec"
	"slices"

	"github.com/go-rlock/rlock/internal/redisson"
)

// Redisson is the real one, in Java. Its workers are JVMs, which take and free
// locks 10 000 times (2 000 with -quick) before they are first measured.
func Redisson() Contender {
	return redissonAs("redisson", Plain, "")
}

// RedissonFair is its getFairLock.
func RedissonFair() Contender {
	return redissonAs("redisson-fair", Fair, "getFairLock of ")
}

// RedissonReadWrite is its getReadWriteLock. Its DEL of an unlock latch is not counted: the
// script of the read lock sends a SET of its own, which hides them.
func RedissonReadWrite() Contender {
	c := redissonAs("redisson-rw", ReadWrite, "getReadWriteLock of ")
	c.Sends = slices.DeleteFunc(c.Sends, func(command string) bool { return command == "set" })
	return c
}

func redissonAs(name string, kind Kind, what string) Contender {
	return Contender{
		Name:      name,
		Kind:      kind,
		About:     what + "Redisson " + string(redisson.V4) + " (Java), all defaults; its JVMs are warmed up",
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
