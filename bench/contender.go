package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// A contender is one lock in one configuration: rlock and the peers as their own documentation
// recommends, and the floor, a lower bound.
//
//	contender --open--> client (one process's worth) --mutex--> mutex (one goroutine's handle)
//
// A contender that fails says so: an error of lock or unlock is counted and shown, never hidden
// and never retried here.
type contender struct {
	name  string // as in flags, tables and plots
	about string // its configuration, and the source of the recommendation
	kind  string // of the lock: only contenders of one kind are compared, unless a scenario names its contenders

	wakes     string // how a waiter learns that the lock is free; "": it does not wait
	reentrant bool
	renews    bool // a lock that is held longer than its lease is kept

	// sends are the commands that its client sends, as in INFO commandstats, which counts the
	// commands of scripts as well.
	sends []string
	key   string // what a key has before the name of the lock that it is

	open func(config) (*client, error)
	// java is set in place of open for Redisson: the command of its worker.
	java func() (*exec.Cmd, error)
}

// The kinds of locks. All but readWrite exclude.
const (
	plain     = ""
	fair      = "fair" // first come, first served
	readWrite = "read-write"
	majority  = "majority" // over all of config.addrs
)

// A config is the configuration by a measurement. Everything else is the contender's own.
type config struct {
	addrs []string      // of Redis: all but a majority use the first
	lease time.Duration // 0 is the contender's default
}

// A client is what one process opens once. Its functions may be called concurrently.
type client struct {
	mutex  func(name string) mutex
	reader func(name string) mutex // the handle of a reader, where mutex is that of a writer; nil: no lock is shared
	close  func() error
}

// A mutex is one goroutine's handle of a lock. lock waits until it holds the lock, or fails: because
// ctx ended, or by the contender's own rules, such as a limit of tries.
type mutex struct {
	lock   func(ctx context.Context) error
	unlock func() error
}

// contenders returns them in the order of the tables.
func contenders() []contender {
	return []contender{
		rlockAs("rlock", plain, "this library, all defaults: lease 30 s, HandoffLimit 16, HandoffTime 10 ms"),
		rueidislockAs("rueidislock", plain, "all defaults: KeyMajority 2, which is three keys a lock"),
		rueidislockAs("rueidislock-1", plain, "as its README for one Redis: KeyMajority 1, NoLoopTracking"),
		redsyncAs("redsync", plain, "as its README: go-redis, one pool, expiry 8 s, 32 tries 50 to 250 ms apart"),
		redislockAs("redislock-linear", "LinearBackoff(100 ms) as in its example, without a limit of retries"),
		redislockAs("redislock-exp", "ExponentialBackoff(16 ms, 512 ms): the minimum its docs recommend"),
		redissonAs("redisson", plain, ""),
		floor(),

		rlockAs("rlock-fair", fair, "this library's NewFairLock, all defaults: in the order of all waiters of all clients"),
		redissonAs("redisson-fair", fair, "getFairLock of "),
		rlockAs("rlock-rw", readWrite, "this library's NewReadWriteLock, all defaults"),
		redissonAs("redisson-rw", readWrite, "getReadWriteLock of "),
		rlockAs("rlock-redlock", majority, "this library's NewRedLock, a client for each of the servers, all defaults"),
		redsyncAs("redsync-majority", majority, "redsync, a pool for each of the servers, all defaults"),
		rueidislockAs("rueidislock-majority", majority, "KeyMajority 3, five keys a lock, on one server: the middle one by distance"),

		redislockAs("redislock-5ms", "LinearBackoff(5 ms), without a limit of retries: only in fleets, as hundreds of waiters would flood Redis"),
	}
}

// find returns the contender of that name: one of contenders, or broken or deaf.
func find(name string) (contender, error) {
	all := append(contenders(), broken(), deaf())
	if i := slices.IndexFunc(all, func(c contender) bool { return c.name == name }); i >= 0 {
		return all[i], nil
	}
	return contender{}, fmt.Errorf("bench: no contender is called %q: there are %s", name, names(contenders()))
}

func (c contender) String() string { return c.name }

// absent returns why the contender cannot be measured on this machine, "" if it can.
func (c contender) absent() string {
	if c.java == nil {
		return ""
	}
	if _, err := c.java(); err != nil {
		why, _, _ := strings.Cut(err.Error(), "\n")
		return why
	}
	return ""
}

// broken grants every lock at once. It is not one of contenders: with it the tests prove that an
// overlap is seen.
func broken() contender {
	yes := func(string) mutex {
		return mutex{func(context.Context) error { return nil }, func() error { return nil }}
	}
	return contender{name: "broken", wakes: "never sleeps", open: func(config) (*client, error) {
		return &client{mutex: yes, reader: yes, close: func() error { return nil }}, nil
	}}
}

// deaf has one lock, whose waiters are never woken. It is for the tests too.
func deaf() contender {
	return contender{name: "deaf", wakes: "nothing", open: func(config) (*client, error) {
		held := make(chan struct{}, 1)
		return &client{close: func() error { return nil }, mutex: func(string) mutex {
			return mutex{func(ctx context.Context) error {
				select {
				case held <- struct{}{}:
					return nil
				default:
				}
				<-ctx.Done()
				return ctx.Err()
			}, func() error { <-held; return nil }}
		}}, nil
	}}
}
