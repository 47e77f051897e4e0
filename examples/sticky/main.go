// Sticky serves the requests of users behind a balancer with sticky sessions: nearly all
// requests of a user come to the same replica, and each takes the user's lock. The lock
// lingers at the replica, so that the next request there takes it without a command to
// Redis. When the balancer moves a user to another replica, that one calls for the lock:
//
//	go run ./examples/sticky
//
// The same holds for the consumers of a partitioned queue, and locks by partition.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/examples/internal/embedded"
	"github.com/go-rlock/rlock/rlock"
)

const (
	users    = 20
	requests = 200 // of each user, before and after the balancer moves the users
)

func main() { embedded.Main("sticky", run) }

func run(ctx context.Context, options rueidis.ClientOption) error {
	var replicas []*rlock.Client
	for range 2 {
		client, err := rlock.New(rlock.Config{Redis: options, Linger: 10 * time.Second})
		if err != nil {
			return err
		}
		defer client.Close()
		replicas = append(replicas, client)
	}

	served, names := make(map[int]int), time.Now().UnixNano()
	serve := func(replica, user int) error {
		lock := replicas[replica].NewLock(fmt.Sprint("example:user:", names, ":", user))
		return lock.Do(ctx, func(context.Context) error {
			served[user]++ // one goroutine here; in a service the lock protects it
			return nil
		})
	}
	for moved := range 2 {
		for range requests {
			for user := range users {
				if err := serve((user+moved)%2, user); err != nil {
					return err
				}
			}
		}
	}

	var local, commands int64
	for _, client := range replicas {
		stats := client.Stats()
		local += stats.AcquiredByLinger
		commands += stats.Commands
	}
	const all = 2 * users * requests
	for user, n := range served {
		if n != 2*requests {
			return fmt.Errorf("user %d was served %d times", user, n)
		}
	}
	fmt.Printf("%d requests took a lock: %d of them without Redis, all of them with %d commands\n", all, local, commands)
	if local < all*9/10 {
		return fmt.Errorf("only %d locks lingered", local)
	}
	fmt.Println("more than nine of ten requests needed no command")
	return nil
}
