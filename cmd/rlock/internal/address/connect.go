package address

import (
	"context"
	"fmt"

	"github.com/go-rlock/rlock/rlock"
)

// Connect is [rlock.New], and returns as soon as ctx ends. Unlike [rlock.NewContext] it does not
// wait for a server that is away: the caller of a command decides whether to try again.
func Connect(ctx context.Context, config rlock.Config) (*rlock.Client, error) {
	type result struct {
		client *rlock.Client
		err    error
	}
	made := make(chan result, 1)
	go func() {
		client, err := rlock.New(config)
		made <- result{client, err}
	}()
	select {
	case r := <-made:
		return r.client, r.err
	case <-ctx.Done():
		go func() {
			if r := <-made; r.err == nil {
				_ = r.client.Close() // the client holds no lock
			}
		}()
		return nil, fmt.Errorf("rlock: connect: %w", ctx.Err())
	}
}
