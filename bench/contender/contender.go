// Package contender puts the locks that are compared behind one interface, one small file
// each. Peers are configured as their own documentation recommends, older designs are written
// from their published description (each file names it), and the floor is the lower bound.
//
//	Contender --Open--> Client (one process's worth) --Mutex--> Mutex (one goroutine's handle)
//
// A contender that fails says so: an error from Lock or Unlock is counted and
// shown, never hidden and never retried here.
package contender

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// A Contender is one kind of lock in one configuration.
type Contender struct {
	Name  string // as in flags, tables and plots
	About string // its configuration, and the source of the recommendation

	// Kind is the kind of the lock. Only contenders of one kind are compared, unless a
	// scenario names its contenders.
	Kind Kind
	// Only is the scenario that compares this contender, "" for every scenario of its
	// kind.
	Only string

	// Wakes names the waiting policy: how a waiter learns that the lock is free. "" for the
	// floor, which does not wait and so is compared only in scenarios without waiting.
	Wakes string
	// Reentrant: the same handle may be locked again while it is held.
	Reentrant bool
	// Renews: a lock that is held longer than its lease is kept alive.
	Renews bool

	// Sends are the commands that its client sends, in lower case as in INFO commandstats,
	// which counts the commands of scripts as well. The sum of these gives the commands that
	// crossed the network; a test compares it with MONITOR.
	Sends []string
	// Key returns a Redis key that exists while the lock of that name is held.
	Key func(name string) string

	Open func(Config) (Client, error)

	// Program is set instead of Open for a contender that is not in Go: a process that works
	// as a worker, for the kinds of job in Does (package worker has the protocol). It fails
	// where it cannot be run.
	Program func() (*exec.Cmd, error)
	Does    []string
}

// A Kind is a kind of lock.
type Kind string

// The kinds. All but ReadWrite exclude; the zero Kind has no order of waiters that a scenario
// asks for.
const (
	Plain     Kind = ""
	Fair      Kind = "fair"       // first come, first served
	ReadWrite Kind = "read-write" // its clients are Sharers
	Majority  Kind = "majority"   // over Config.Addrs
)

// Absent returns why the contender cannot be measured on this machine, "" if it can.
func (c Contender) Absent() string {
	if c.Program == nil {
		return ""
	}
	if _, err := c.Program(); err != nil {
		why, _, _ := strings.Cut(err.Error(), "\n")
		return why
	}
	return ""
}

// Waits reports whether Lock waits for a held lock.
func (c Contender) Waits() bool { return c.Wakes != "" }

// Config is the configuration by a measurement. Everything else is the contender's own.
type Config struct {
	Addr string // host:port of Redis
	// Addrs are those of independent servers, Addr among them, for the kind Majority.
	Addrs []string
	// Lease is set where the scenario depends on it; 0 is the contender's own default.
	Lease time.Duration
}

// A Client is what one process opens once. Its methods may be called concurrently.
type Client interface {
	// Mutex returns a handle to the lock of that name.
	Mutex(name string) Mutex
	// Close frees the client. Nothing of it is used afterwards.
	Close() error
}

// A Sharer is a Client whose locks readers share with each other. Its Mutex is the
// writers'.
type Sharer interface {
	// Reader returns a handle that only readers may share.
	Reader(name string) Mutex
}

// A Mutex is one goroutine's handle to a lock: it is not shared.
type Mutex interface {
	// Lock waits until it holds the lock, or fails: because ctx ended, or by the contender's
	// own rules, such as a limit of tries. Then nothing is held.
	Lock(ctx context.Context) error
	// Unlock gives back one Lock.
	Unlock() error
}

// All returns the contenders in the order of the tables.
func All() []Contender {
	return []Contender{
		RLock(),
		Rueidislock(), RueidislockOne(),
		Redsync(),
		RedislockLinear(), RedislockExponential(), RedislockFast(),
		Redisson(),
		FloorEvalsha(), FloorSetNX(),

		rlockFair(), RedissonFair(),
		rlockReadWrite(), RedissonReadWrite(),
		rlockRedLock(), RedsyncMajority(), RueidislockMajority(),
	}
}

// Find returns the contender of that name: one of All, or Broken or Deaf.
func Find(name string) (Contender, error) {
	all := append(All(), Broken(), Deaf())
	i := slices.IndexFunc(all, func(c Contender) bool { return c.Name == name })
	if i < 0 {
		names := make([]string, len(all))
		for i, c := range all {
			names[i] = c.Name
		}
		return Contender{}, fmt.Errorf("contender: none is called %q: there are %s", name, strings.Join(names, ", "))
	}
	return all[i], nil
}

// plain is the Key of a contender that uses the lock's name as it is.
func plain(name string) string { return name }

// sleep waits for d or until ctx ends, whose error it then returns.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
