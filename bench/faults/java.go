package main

import (
	"context"
	"os/exec"
	"strconv"
	"sync/atomic"

	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/internal/redisson"
)

// inJava is Redisson's RLock. A client is a JVM, and a mutex a thread of it.
func inJava() contender.Contender {
	made := contender.Redisson()
	made.Open = func(c contender.Config) (contender.Client, error) {
		process, err := redisson.Start(redisson.Config{Version: redisson.V4, Addrs: []string{c.Addr}, Watchdog: c.Lease})
		if err != nil {
			return nil, err
		}
		return &javaClient{process: process}, nil
	}
	return made
}

type javaClient struct {
	process *redisson.Process
	threads atomic.Int64
}

func (c *javaClient) Mutex(name string) contender.Mutex {
	return javaMutex{c.process.Thread(strconv.FormatInt(c.threads.Add(1), 10)), name}
}

func (c *javaClient) Close() error {
	c.process.Kill()
	return nil
}

type javaMutex struct {
	thread redisson.Thread
	name   string
}

// Lock is lockInterruptibly. It interrupts the thread when ctx ends.
func (m javaMutex) Lock(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- m.thread.LockInterruptibly(m.name, 0) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		_ = m.thread.Interrupt()
		return <-done
	}
}

func (m javaMutex) TryLock(context.Context) (bool, error) { return m.thread.TryLock(m.name, 0, 0) }

func (m javaMutex) Unlock() error { return m.thread.Unlock(m.name) }

// redissons is the library whose workers are JVMs.
const redissons = "redisson"

// redissonWorker is a worker in Java: the main class of internal/redisson/driver's package rlock.guardedset, which has
// the same job and says the same.
func redissonWorker() (*exec.Cmd, error) {
	return redisson.Command(redisson.V4, "rlock.guardedset.Main",
		"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx96m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")
}
