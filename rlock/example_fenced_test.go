package rlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-rlock/rlock/rlock"
)

func ExampleClient_NewFencedLock() {
	client, end := connect()
	defer end()
	ctx := context.Background()
	lock := client.NewFencedLock("lock:orders:42")

	for range 3 {
		err := lock.Do(ctx, func(ctx context.Context) error {
			token, err := lock.Token(ctx)
			fmt.Println("token", token) // one for each section, each larger than all before
			return err
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	_, err := lock.Token(ctx)
	fmt.Println(errors.Is(err, rlock.ErrNotHeld))
	// Output:
	// token 1
	// token 2
	// token 3
	// true
}

// A file server that gets the token with each write, and refuses stale ones: examples/fenced
// has one in SQL.
type fileServer struct{ token uint64 }

func (s *fileServer) write(hold *rlock.Hold, text string) {
	token, err := hold.Token()
	if err != nil || token < s.token {
		fmt.Printf("refused %q\n", text)
		return
	}
	s.token = token
	fmt.Printf("written %q\n", text)
}

func ExampleHold_Token() {
	client, end := connect()
	defer end()
	ctx := context.Background()
	lock := client.NewFencedLock("lock:orders:42")
	files := new(fileServer)

	first, err := lock.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	files.write(first, "first")
	_, _ = lock.ForceUnlock(ctx) // in place of a pause that outlasts its lease

	second, err := lock.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	files.write(second, "second")
	files.write(first, "first, late") // it has not checked whether it still holds the lock
	fmt.Println(second.Release(ctx))
	// Output:
	// written "first"
	// written "second"
	// refused "first, late"
	// <nil>
}
