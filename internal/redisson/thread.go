package redisson

import (
	"encoding/json"
	"fmt"
	"time"
)

// A Thread is a Java thread: for Redisson, with its process, the identity of whom
// a lock belongs to. It executes one call at a time, in the order in which they
// are made; each method returns when its call has. IsAsleep is about the call under way.
type Thread struct {
	process *Process
	name    string
	kind    Kind
}

// A Kind is one of Redisson's kinds of lock.
type Kind string

// The kinds, with what makes them.
const (
	Plain  Kind = ""       // getLock
	Fenced Kind = "fenced" // getFencedLock
	Fair   Kind = "fair"   // getFairLock
	Spin   Kind = "spin"   // getSpinLock
	Read   Kind = "read"   // getReadWriteLock(...).readLock
	Write  Kind = "write"  // getReadWriteLock(...).writeLock
)

// Thread returns the thread of that name, the same one each time.
func (p *Process) Thread(name string) Thread { return Thread{process: p, name: name} }

// With returns the same thread, whose calls are about locks of that kind.
func (t Thread) With(k Kind) Thread {
	t.kind = k
	return t
}

// Lock is RLock.lock(lease), and lock() if the lease is 0.
func (t Thread) Lock(lock string, lease time.Duration) error {
	return t.do(command{Call: "lock", Name: lock, LeaseMillis: lease.Milliseconds()})
}

// TryLock is RLock.tryLock(wait, lease), with the watchdog if the lease is 0, and
// tryLock() if both are.
func (t Thread) TryLock(lock string, wait, lease time.Duration) (bool, error) {
	return ask[bool](t, command{Call: "tryLock", Name: lock, WaitMillis: wait.Milliseconds(), LeaseMillis: lease.Milliseconds()})
}

// Unlock is RLock.unlock.
func (t Thread) Unlock(lock string) error {
	return t.do(command{Call: "unlock", Name: lock})
}

// ForceUnlock is RLock.forceUnlock.
func (t Thread) ForceUnlock(lock string) (bool, error) {
	return ask[bool](t, command{Call: "forceUnlock", Name: lock})
}

// IsLocked is RLock.isLocked.
func (t Thread) IsLocked(lock string) (bool, error) {
	return ask[bool](t, command{Call: "isLocked", Name: lock})
}

// IsHeld is RLock.isHeldByCurrentThread.
func (t Thread) IsHeld(lock string) (bool, error) {
	return ask[bool](t, command{Call: "isHeldByCurrentThread", Name: lock})
}

// HoldCount is RLock.getHoldCount.
func (t Thread) HoldCount(lock string) (int, error) {
	return ask[int](t, command{Call: "getHoldCount", Name: lock})
}

// TTL is RLock.remainTimeToLive: -2 ms if the lock is free, -1 ms if its key does not
// expire.
func (t Thread) TTL(lock string) (time.Duration, error) {
	ms, err := ask[int64](t, command{Call: "remainTimeToLive", Name: lock})
	return time.Duration(ms) * time.Millisecond, err
}

// LockAndGetToken is RFencedLock.lockAndGetToken.
func (t Thread) LockAndGetToken(lock string) (uint64, error) {
	return ask[uint64](t, command{Call: "lockAndGetToken", Name: lock})
}

// Token is RFencedLock.getToken, which is the counter, regardless of the holder.
func (t Thread) Token(lock string) (uint64, error) {
	return ask[uint64](t, command{Call: "getToken", Name: lock})
}

// Count takes the lock again and again for so long, and each time adds one to the
// counter, a key in Redis, by a GET and a SET. It returns how often.
func (t Thread) Count(lock, counter string, during time.Duration) (int, error) {
	return ask[int](t, command{Call: "count", Name: lock, Counter: counter, WaitMillis: during.Milliseconds()})
}

// A Share is what a thread had of a lock.
type Share struct {
	Sections int
	Longest  time.Duration // the longest wait for one
}

// Contend takes the lock again and again for so long, each time for a section of that length,
// before which it pauses for a random time below pause. With trying it does not wait in RLock.lock,
// but calls RLock.tryLock() until it has the lock, with a millisecond between two calls.
func (t Thread) Contend(lock string, section, pause, during time.Duration, trying bool) (Share, error) {
	share, err := ask[struct{ Sections, LongestMillis int64 }](t, command{
		Call: "contend", Name: lock, WaitMillis: during.Milliseconds(),
		SectionMillis: section.Milliseconds(), PauseMillis: pause.Milliseconds(), Trying: trying,
	})
	return Share{int(share.Sections), time.Duration(share.LongestMillis) * time.Millisecond}, err
}

// IsAsleep says whether the thread waits for a lock's message, or for the end of its
// lease, and does nothing else until then.
func (t Thread) IsAsleep() (bool, error) {
	return ask[bool](t, command{Call: "isAsleep"})
}

// do makes a call without a value.
func (t Thread) do(c command) error {
	c.Thread, c.Kind = t.name, t.kind
	_, err := t.process.call(c)
	return err
}

// ask makes a call and returns its value.
func ask[T any](t Thread, c command) (value T, err error) {
	c.Thread, c.Kind = t.name, t.kind
	text, err := t.process.call(c)
	if err != nil {
		return value, err
	}
	if err := json.Unmarshal(text, &value); err != nil {
		return value, fmt.Errorf("redisson: %s of %q answered %s: %w", c.Call, c.Name, text, err)
	}
	return value, nil
}

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
