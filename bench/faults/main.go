// Command faults breaks the locks of each library, and counts what that costs. It has two tables.
//
//	cd bench && go run ./faults guardedset   # twelve minutes; writes results/guardedset
//	cd bench && go run ./faults resend       # two minutes; writes results/resend
//
// guardedset is Jepsen's test of etcd's locks for Redis: processes read, increment and write one value under a lock while
// they are stopped (SIGSTOP) for one to two leases, cut off from Redis, and killed, and while Sentinel fails over to a
// replica. The resource, a hash in another Redis, keeps each write: lost updates are its writes less its value, stale are
// the writes that found another value than the one that was read. The faults meet the process that has the lock, so they
// are worse than in a service.
//
// resend loses, doubles, repeats and delays each command of each library's lock, one at a time, and reports the
// consequences: a lock that nothing releases, two holders, or a call that waits for ever. The commands pass the faulty
// network of rlock's own tests (internal/network). Each case has a lock of its own.
//
// Without Java and Maven, Redisson is left out of both.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := play(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// play makes the table that the first argument names, or does the job of a worker.
func play(ctx context.Context, args []string) error {
	if job := os.Getenv(role); job != "" {
		return work(job)
	}
	tables := map[string]func(context.Context, *flag.FlagSet, []string) error{"guardedset": guardedSet, "resend": resend}
	if len(args) == 0 || tables[args[0]] == nil {
		return errors.New("faults: say guardedset or resend")
	}
	return tables[args[0]](ctx, flag.NewFlagSet(args[0], flag.ExitOnError), args[1:])
}

// among reports whether the list, separated by commas, has the word or is empty.
func among(list, word string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), word)
}

// each does the work of each, so many at once.
func each[T any](all []T, atOnce int, work func(i int, one T)) {
	var group sync.WaitGroup
	turns := make(chan struct{}, max(atOnce, 1))
	for i, one := range all {
		turns <- struct{}{}
		group.Go(func() {
			defer func() { <-turns }()
			work(i, one)
		})
	}
	group.Wait()
}
