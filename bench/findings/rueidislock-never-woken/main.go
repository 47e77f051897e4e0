// Command rueidislock-never-woken shows a waiter that sleeps on although the lock is free.
// Goroutines of a few lockers pass one lock around, a few times each; sooner or later a round
// does not end: a goroutine waits, and no key exists.
//
// There are two causes at least. With KeyMajority 1, the failure counter of a
// try is incremented after the goroutine that reads it was started, so that it
// can take the try for one that held the lock, and drop the gate on which the
// other waiters of the process sleep. Nothing wakes them: the wait has no
// fallback by time.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

const (
	lockers    = 4
	goroutines = 4 // of each
	sections   = 5 // of each goroutine in a round
	rounds     = 2000
	patience   = 5 * time.Second // 16 goroutines need milliseconds
)

func main() {
	addr := "127.0.0.1:6379"
	if len(os.Args) > 1 {
		addr = os.Args[1]
	}
	option := rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}},
		KeyMajority:  1, NoLoopTracking: true, // as its README has it for one Redis
		// Long enough to exclude the finding of rueidislock-far-away.
		TryNextAfter: 2 * time.Second,
	}
	for round := range rounds {
		name := fmt.Sprintf("never-woken:%d:%d", os.Getpid(), round)
		stuck, err := play(option, name)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if stuck == 0 {
			continue
		}
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		exists, err := client.Do(context.Background(), client.B().Exists().Key("rueidislock:0:"+name).Build()).AsInt64()
		fmt.Printf("round %d: %d waiters were not woken in %v; keys of the lock in Redis: %d %v\n", round, stuck, patience, exists, err)
		client.Close()
		os.Exit(1)
	}
	fmt.Printf("not seen in %d rounds\n", rounds)
}

// play is one round. It returns how many goroutines still waited when the others had long
// finished.
func play(option rueidislock.LockerOption, name string) (stuck int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range lockers {
		locker, err := rueidislock.NewLocker(option)
		if err != nil {
			return 0, err
		}
		defer locker.Close()
		for range goroutines {
			all.Go(func() {
				for range sections {
					_, release, err := locker.WithContext(ctx, name)
					if err != nil {
						mu.Lock()
						stuck++
						mu.Unlock()
						return
					}
					release()
				}
			})
		}
	}
	all.Wait()
	return stuck, nil
}
