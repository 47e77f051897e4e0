package rlock

import (
	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/driver"
)

// NewFairLock returns the fair lock of that name. Like [Client.NewLock] it sends no command.
// It is granted in the order in which its waiters came, over all clients: it uses the same
// queue in Redis as every lock, with a ticket for each waiter instead of one for each
// client, and it is never handed off inside a process. Each release goes to Redis, which
// grants the lock to the first ticket.
//
// The order is lost where Redis loses the queue, as in a failover: each waiter then joins
// again within two seconds. A waiter also loses its place while the client has no
// connection for its subscriptions.
//
// Redisson's getFairLock() is another lock, with a queue of its own: a fair lock of rlock
// only excludes it, as it does Redisson's RLock.
func (c *Client) NewFairLock(name string) *Lock {
	return lockOf(c, driver.NewLock(c.driver, client.FairKind, name))
}
