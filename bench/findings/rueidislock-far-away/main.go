// Command rueidislock-far-away shows that rueidislock does not acquire a free
// lock from a Redis that takes longer than TryNextAfter, 20 ms by default, to
// answer: each try is given up at that time, its key deleted again, and then the
// call sleeps until an invalidation that may never come. A pause of the machine
// or a burst of work does as well as a distance.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/go-rlock/rlock/internal/network"
)

func main() {
	addr := "127.0.0.1:6379"
	if len(os.Args) > 1 {
		addr = os.Args[1]
	}
	acquired := true
	for _, roundTrip := range []time.Duration{10 * time.Millisecond, 30 * time.Millisecond} {
		took, err := acquire(addr, roundTrip)
		fmt.Printf("Redis %v away: WithContext on a free lock returned after %v: %v\n", roundTrip, took.Round(time.Millisecond), err)
		acquired = acquired && err == nil
	}
	if !acquired {
		os.Exit(1)
	}
}

func acquire(addr string, roundTrip time.Duration) (time.Duration, error) {
	n, err := network.Listen(addr)
	if err != nil {
		return 0, err
	}
	defer n.Close()
	n.SetRoundTrip(roundTrip)
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{n.Addr()}},
		KeyMajority:  1, NoLoopTracking: true, // as its README has it for one Redis
	})
	if err != nil {
		return 0, err
	}
	defer locker.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	began := time.Now()
	_, release, err := locker.WithContext(ctx, fmt.Sprintf("far-away:%d", os.Getpid()))
	if err == nil {
		release()
	}
	return time.Since(began), err
}
