package rlock

// A FairLock is a [Lock] that is granted in the order in which its waiters came, over all
// clients. It waits in the same queue in Redis as every lock, with a ticket for each waiter
// instead of one for each client, and it is never handed off inside a process: each release
// goes to Redis, which grants the lock to the first ticket.
//
// The order is lost where Redis loses the queue, as in a failover: each waiter then joins
// again within two seconds. A waiter also loses its place while the client has no
// connection for its subscriptions.
//
// Redisson's getFairLock() is another lock, with a queue of its own: a FairLock only
// excludes it, as it does Redisson's RLock.
type FairLock struct{ lock }

var _ Locker = (*FairLock)(nil)

// NewFairLock returns the fair lock of that name, at no cost, as [Client.NewLock]
// does.
func (c *Client) NewFairLock(key string) *FairLock {
	return &FairLock{lock{client: c, name: c.newName(fairKind, key)}}
}
