// Package redisson has Redisson's other synchronizers, on Redisson's own keys, channels and
// messages: [Semaphore] (RSemaphore), [PermitSemaphore] (RPermitExpirableSemaphore) and
// [CountDownLatch] (RCountDownLatch). It is for fleets that move from Java to Go, or have both. For
// a new program rlock's own semaphore is better: it has holders, leases and one queue over all
// processes. See docs/redisson.md.
//
//	sync := redisson.New(client)
//	s := sync.Semaphore("downloads")
//	if err := s.Acquire(ctx, 1); err != nil {
//		return err
//	}
//	defer s.Release(context.WithoutCancel(ctx), 1)
//
// # What a call does
//
//	attempt ──► granted
//	   │ not free
//	   ▼
//	join the line of this process, and subscribe
//	   │ the first in the line attempts again: once the subscription is confirmed, also after a reconnection;
//	   │ at each message; when the next permit ends; at the latest after two seconds
//	   ▼
//	granted, and the next in the line attempts │ the time is up: one more attempt │ the context ends
//
// Only the first in the line attempts, so that callers of one process are served in the order in
// which they came, no wake is lost with a caller that leaves, and a message costs each process one
// command. Over processes there is no order, as in Redisson. But a process that has released more
// permits than others leaves them a turn of some milliseconds while they listen.
//
// # Better than Redisson, and where not
//
// Redisson's waiters sleep for ever after a lost message; waiters of this package look again. A
// command without an answer is not sent again if it could take effect twice: the call returns
// [rlock.ErrUnconfirmed]. So a call that waits for a [Semaphore] reads the number of permits before
// it takes any. Commands about a [Permit] name its id, and are sent again. Waiters of a latch wake
// when it is deleted. A [Permit] can be kept by a watchdog. Two things remain as in Redisson: a
// [Semaphore] knows no holder, so that permits of a process that has died stay taken; and a latch
// cannot distinguish a new count from the former one.
//
// # Failure
//
// A command that Redis has not executed is sent again by a call that waits, until its context ends.
// A call whose context ends while its command is in flight returns when the answer comes, at the
// latest after the time of an Unlock.
package redisson
