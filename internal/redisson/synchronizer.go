package redisson

import "time"

// The kinds of Redisson's other synchronizers.
const (
	Semaphore Kind = "semaphore" // getSemaphore
	Permits   Kind = "permits"   // getPermitExpirableSemaphore
	Latch     Kind = "latch"     // getCountDownLatch
)

// Acquire is RSemaphore.acquire.
func (t Thread) Acquire(name string, n int) error {
	return t.With(Semaphore).do(nil, command{Call: "acquire", Name: name, LeaseMillis: int64(n)})
}

// TryAcquire is RSemaphore.tryAcquire.
func (t Thread) TryAcquire(name string, n int, wait time.Duration) (ok bool, err error) {
	err = t.With(Semaphore).do(&ok, command{Call: "tryAcquire", Name: name, LeaseMillis: int64(n), WaitMillis: wait.Milliseconds()})
	return ok, err
}

// Release is RSemaphore.release.
func (t Thread) Release(name string, n int) error {
	return t.With(Semaphore).do(nil, command{Call: "release", Name: name, LeaseMillis: int64(n)})
}

// AddPermits is RSemaphore.addPermits.
func (t Thread) AddPermits(name string, n int) error {
	return t.With(Semaphore).do(nil, command{Call: "addPermits", Name: name, LeaseMillis: int64(n)})
}

// AvailablePermits is RSemaphore.availablePermits.
func (t Thread) AvailablePermits(name string) (n int, err error) {
	err = t.With(Semaphore).do(&n, command{Call: "availablePermits", Name: name})
	return n, err
}

// AcquirePermit is RPermitExpirableSemaphore.acquire(lease), and acquire() if the lease is 0.
func (t Thread) AcquirePermit(name string, lease time.Duration) (id string, err error) {
	err = t.With(Permits).do(&id, command{Call: "acquire", Name: name, LeaseMillis: lease.Milliseconds()})
	return id, err
}

// TryAcquirePermit is RPermitExpirableSemaphore.tryAcquire(wait, lease): the id is "" if no permit was free.
func (t Thread) TryAcquirePermit(name string, wait, lease time.Duration) (id string, err error) {
	err = t.With(Permits).do(&id, command{Call: "tryAcquire", Name: name, WaitMillis: wait.Milliseconds(), LeaseMillis: lease.Milliseconds()})
	return id, err
}

// TryReleasePermit is RPermitExpirableSemaphore.tryRelease.
func (t Thread) TryReleasePermit(name, id string) (ok bool, err error) {
	err = t.With(Permits).do(&ok, command{Call: "tryRelease", Name: name, Counter: id})
	return ok, err
}

// UpdateLease is RPermitExpirableSemaphore.updateLeaseTime.
func (t Thread) UpdateLease(name, id string, lease time.Duration) (ok bool, err error) {
	err = t.With(Permits).do(&ok, command{Call: "updateLeaseTime", Name: name, Counter: id, LeaseMillis: lease.Milliseconds()})
	return ok, err
}

// FreePermits is RPermitExpirableSemaphore.availablePermits.
func (t Thread) FreePermits(name string) (n int, err error) {
	err = t.With(Permits).do(&n, command{Call: "availablePermits", Name: name})
	return n, err
}

// TrySetCount is RCountDownLatch.trySetCount.
func (t Thread) TrySetCount(name string, n int64) (ok bool, err error) {
	err = t.With(Latch).do(&ok, command{Call: "trySetCount", Name: name, LeaseMillis: n})
	return ok, err
}

// CountDown is RCountDownLatch.countDown.
func (t Thread) CountDown(name string) error {
	return t.With(Latch).do(nil, command{Call: "countDown", Name: name})
}

// Await is RCountDownLatch.await.
func (t Thread) Await(name string) error {
	return t.With(Latch).do(nil, command{Call: "await", Name: name})
}

// AwaitFor is RCountDownLatch.await(wait): it reports whether the latch is open.
func (t Thread) AwaitFor(name string, wait time.Duration) (ok bool, err error) {
	err = t.With(Latch).do(&ok, command{Call: "await", Name: name, WaitMillis: wait.Milliseconds()})
	return ok, err
}
