package rlock

import (
	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/driver"
)

// NewFairLock returns the fair lock of that name; like [Client.NewLock] it sends no command. It
// is granted in the order in which its waiters came, over all clients: each waiter has a ticket
// in the queue in Redis, in place of one for each client, and the lock is never handed off inside
// a process. The order is lost where Redis loses the queue, as in a failover, and a waiter loses
// its place while the client has no connection for its subscriptions.
//
// Redisson's getFairLock() is another lock, with a queue of its own: a fair lock of rlock only
// excludes it, as it does Redisson's RLock.
func (c *Client) NewFairLock(name string) *Lock {
	return lockOf(c, driver.NewLock(c.driver, client.FairKind, c.inRedis(name)))
}
