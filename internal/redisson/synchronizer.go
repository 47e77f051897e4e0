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
	return t.With(Semaphore).do(command{Call: "acquire", Name: name, LeaseMillis: int64(n)})
}

// TryAcquire is RSemaphore.tryAcquire.
func (t Thread) TryAcquire(name string, n int, wait time.Duration) (bool, error) {
	return ask[bool](t.With(Semaphore), command{Call: "tryAcquire", Name: name, LeaseMillis: int64(n), WaitMillis: wait.Milliseconds()})
}

// Release is RSemaphore.release.
func (t Thread) Release(name string, n int) error {
	return t.With(Semaphore).do(command{Call: "release", Name: name, LeaseMillis: int64(n)})
}

// AddPermits is RSemaphore.addPermits.
func (t Thread) AddPermits(name string, n int) error {
	return t.With(Semaphore).do(command{Call: "addPermits", Name: name, LeaseMillis: int64(n)})
}

// AvailablePermits is RSemaphore.availablePermits.
func (t Thread) AvailablePermits(name string) (int, error) {
	return ask[int](t.With(Semaphore), command{Call: "availablePermits", Name: name})
}

// AcquirePermit is RPermitExpirableSemaphore.acquire(lease), and acquire() if the lease is 0.
func (t Thread) AcquirePermit(name string, lease time.Duration) (string, error) {
	return ask[string](t.With(Permits), command{Call: "acquire", Name: name, LeaseMillis: lease.Milliseconds()})
}

// TryReleasePermit is RPermitExpirableSemaphore.tryRelease.
func (t Thread) TryReleasePermit(name, id string) (bool, error) {
	return ask[bool](t.With(Permits), command{Call: "tryRelease", Name: name, Counter: id})
}

// UpdateLease is RPermitExpirableSemaphore.updateLeaseTime.
func (t Thread) UpdateLease(name, id string, lease time.Duration) (bool, error) {
	return ask[bool](t.With(Permits), command{Call: "updateLeaseTime", Name: name, Counter: id, LeaseMillis: lease.Milliseconds()})
}

// FreePermits is RPermitExpirableSemaphore.availablePermits.
func (t Thread) FreePermits(name string) (int, error) {
	return ask[int](t.With(Permits), command{Call: "availablePermits", Name: name})
}

// TrySetCount is RCountDownLatch.trySetCount.
func (t Thread) TrySetCount(name string, n int64) (bool, error) {
	return ask[bool](t.With(Latch), command{Call: "trySetCount", Name: name, LeaseMillis: n})
}

// CountDown is RCountDownLatch.countDown.
func (t Thread) CountDown(name string) error {
	return t.With(Latch).do(command{Call: "countDown", Name: name})
}

// Await is RCountDownLatch.await.
func (t Thread) Await(name string) error {
	return t.With(Latch).do(command{Call: "await", Name: name})
}
