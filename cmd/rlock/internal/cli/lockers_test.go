package cli_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
)

// asLocker in the environment makes the test's binary a process that takes locks. Its value
// is what each of its owners does: "a>b c>d" are two of which the first takes a and, when an
// empty line comes, waits for b; a line "first b" before that starts one more, which waits for b.
// "in order" are some that take locks in the order of their names.
const (
	asLocker = "RLOCK_TEST_AS_LOCKER"
	inOrder  = "in order"
)

// locker returns a process that takes locks by the plan.
func (s *site) locker(plan string) *exec.Cmd {
	cmd := exec.CommandContext(s.ctx, os.Args[0])
	cmd.Env = append(os.Environ(), asLocker+"="+plan, "RLOCK_ADDR="+s.addr)
	return cmd
}

func beLocker(plan string) (code int) {
	client, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{os.Getenv("RLOCK_ADDR")}, ForceSingleClient: true}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	var owners sync.WaitGroup
	defer owners.Wait()
	defer cancel()
	input := bufio.NewReader(os.Stdin)
	if plan == inOrder {
		for range 4 {
			owners.Go(func() { takeInOrder(ctx, client) })
		}
		fmt.Println(isReady)
		_, _ = input.ReadString('\n')
		return 0
	}
	begin := make(chan struct{})
	for _, pair := range strings.Fields(plan) {
		first, second, _ := strings.Cut(pair, ">")
		mine := rlock.WithOwner(ctx, rlock.NewOwner())
		if err := client.NewLock(first).Lock(mine); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		owners.Go(func() {
			<-begin
			if client.NewLock(second).Lock(mine) == nil {
				fmt.Println("deadlock resolved")
			}
		})
	}
	fmt.Println(isReady)
	for {
		line, _ := input.ReadString('\n')
		name, isFirst := strings.CutPrefix(strings.TrimSpace(line), "first ")
		if !isFirst {
			break
		}
		owners.Go(func() { _ = client.NewLock(name).Do(ctx, func(context.Context) error { return nil }) })
	}
	close(begin)
	_, _ = input.ReadString('\n') // the end of the input
	return 0
}

// takeInOrder takes up to three of some locks in the order of their names, again and again: no
// owner waits for a lock whose holder waits for one of a lower name.
func takeInOrder(ctx context.Context, client *rlock.Client) {
	for ctx.Err() == nil {
		mine := rlock.WithOwner(ctx, rlock.NewOwner())
		var held []*rlock.Lock
		for i := range 6 {
			lock := client.NewLock(fmt.Sprintf("busy:%d", i))
			switch {
			case len(held) == 3 || rand.IntN(2) == 0:
				continue
			case i%3 == 1:
				rw := client.NewReadWriteLock(fmt.Sprintf("busy:%d", i))
				if lock = rw.Read(); rand.IntN(2) == 0 {
					lock = rw.Write()
				}
			case i%3 == 2:
				lock = client.NewFairLock(fmt.Sprintf("busy:%d", i))
			}
			if lock.Lock(mine) != nil {
				break
			}
			held = append(held, lock)
		}
		for _, lock := range held {
			_ = lock.Unlock(context.WithoutCancel(mine))
		}
	}
}
