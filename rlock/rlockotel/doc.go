// Package rlockotel measures and traces the locks of package rlock by OpenTelemetry. It is a module
// of its own, so that programs that use rlock alone do not depend on OpenTelemetry.
//
//	observer, err := rlockotel.NewObserver()
//	...
//	client, err := rlock.New(rlock.Config{Redis: redis, Observer: observer})
//
// That is all: it uses the global providers of meters and tracers, unless an option names others.
// One observer may serve all clients of a process; their figures are added up, and the figures of a
// closed client stay counted.
//
// # Metrics
//
// Times are in seconds. There is no semantic convention for locks yet: the names follow that of
// connection pools, db.client.connection.*, and the rules for new names.
//
//	lock.client.waiters           up-down counter  calls that wait for a lock now
//	lock.client.held              up-down counter  locks that are held now
//	lock.client.acquire.duration  histogram        from the call to its end, with the lock or without
//	lock.client.hold.duration     histogram        from the lock to its release or its loss
//	lock.client.acquired          counter          locks that were acquired
//	lock.client.denied            counter          calls that were told that another has the lock
//	lock.client.lost              counter          locks that were lost
//	lock.client.renewals          counter          renewals of leases
//	lock.client.renew.duration    histogram        a batch of renewals: the round trip
//	lock.client.lease.margin      histogram        what part of the lease was left when it was renewed, from 0 to 1
//	lock.client.commands          counter          commands that were sent to Redis for locks
//	lock.client.wait.time         counter          the sum of the times of all calls for locks
//
// A nested lock by the owner is counted in lock.client.acquired only, with lock.way nesting.
//
// # Attributes
//
// Each has few values:
//
//	lock.kind      plain, fenced, fair, read, write, semaphore, multi, red  waiters, acquire and hold duration
//	lock.result    acquired, answered, busy, full, canceled, timeout, error acquire duration
//	               ok, failed                                               renew duration, renewals
//	lock.way       nesting, joining, handoff, redis, queue, pass            acquired
//	               the same without nesting, and parts                      acquire duration
//	lock.release   released, unconfirmed, passed, closed, lost              hold duration
//	lock.reason    unrenewed, lease_ended, held_too_long, key_gone, forced  lost
//	error.type     the name of rlock's error, else _OTHER                   acquire duration, if the result is error
//	lock.class     the result of [WithLockClass], absent without it         waiters, acquire and hold duration
//
// The name of a lock is never an attribute: most programs have a name for each order or user, and
// each would be a time series of its own. [WithLockClass] maps names to a few classes.
//
// # Traces
//
// A call that had to wait has a span, lock.acquire, which began with the call. Its parent is the
// span in the call's context. With [WithHoldSpans] each hold that ends has a span too, lock.hold,
// whose parent is the span in the context that the lock was released with. If a lock is lost while
// the span in the context that it was acquired with goes on, that span gets an event, lock.lost.
// This needs a handle, since [rlock.Lock.Lock] keeps no context.
//
// # Cost
//
// The hooks take a microsecond or so for each Lock and Unlock, and allocate nothing once a
// combination of attributes was seen. The figures that come from [inspect.Inspector.Stats] cost
// nothing until they are collected. A provider that does nothing, as the global one before it is
// set, costs less.
package rlockotel
