package rlock

import (
	"context"
	"fmt"

	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Inspect returns the state in Redis of the lock of that name, of any kind. It only reads, in
// one round trip, and one more for the processes of holders and waiters, which may be a second
// old. It is no transaction: a lock that is handed over meanwhile may be shown with its last
// holder and the queue of the next moment.
//
// It fails with [ErrWrongType] if the name's key, or that of its queue, is something other
// than a lock, and with [ErrNoPermission] without the rights in docs/operations.md. A failure
// to find out processes, foreign clients or tokens is no error.
func (c *Client) Inspect(ctx context.Context, name string) (inspect.Lock, error) {
	var keys [wire.Forms]*wire.Keys
	for i, id := range [wire.Forms]client.KindID{client.FencedKind, client.ReadWriteKind, client.SemaphoreKind} {
		n := c.shared.NewName(id, c.inRedis(name))
		if n.Err != nil && i == 0 {
			return inspect.Lock{}, n.Err
		}
		keys[i] = &n.Keys
	}
	found, err := c.shared.Redis.Inspect(ctx, keys)
	if err != nil {
		return inspect.Lock{}, fmt.Errorf("rlock: inspect %q: %w", name, err)
	}
	found.Name = name
	return found, nil
}
