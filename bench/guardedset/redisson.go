package main

import (
	"fmt"
	"os/exec"

	"github.com/go-rlock/rlock/internal/redisson"
)

// redissons is the library whose workers are JVMs.
const redissons = "redisson"

// redissonWorker is a worker in Java: the main class of internal/redisson/driver's package rlock.guardedset, which has
// the same job and says the same.
func redissonWorker() (*exec.Cmd, error) {
	return redisson.Command(redisson.V4, "rlock.guardedset.Main",
		"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx96m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")
}

// without returns the forms that can be run on this machine, and why others cannot, "" if all can.
func without(all []form) (there []form, why string) {
	for _, f := range all {
		if _, err := f.command(); err != nil {
			why = fmt.Sprintf("%s (%v)", f.Library, err)
			continue
		}
		there = append(there, f)
	}
	return there, why
}
