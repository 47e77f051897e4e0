package once_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/once"
)

// A refresh token may be used once: a second refresh with it ends the session. Of all processes
// whose access token has ended one refreshes it, and all get the new one.
func Example() {
	locks, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}}})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = locks.Close() }()
	group := once.New(locks, once.Options{Keep: 30 * time.Second})
	defer group.Close()

	type token struct {
		Access  string
		Expires time.Time
	}
	got, shared, err := once.As(context.Background(), group, once.JSON[token](), "token:account-42",
		func(ctx context.Context) (token, error) {
			// read the refresh token, send it, store the new one; ctx ends if the lock is lost
			return token{}, nil
		})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(got.Access, shared)
}
