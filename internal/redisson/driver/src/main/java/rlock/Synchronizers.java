package rlock;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import org.redisson.api.RCountDownLatch;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** Redisson's synchronizers besides its locks. The number of permits, or the count, is the lease of a command. */
final class Synchronizers {

    private Synchronizers() {}

    static boolean isOne(String kind) {
        return "semaphore".equals(kind) || "permits".equals(kind) || "latch".equals(kind);
    }

    static Object call(RedissonClient redisson, Driver.Command c) throws InterruptedException {
        switch (c.kind()) {
            case "semaphore":
                return semaphore(redisson.getSemaphore(c.name()), c);
            case "permits":
                return permits(redisson.getPermitExpirableSemaphore(c.name()), c);
            default:
                return latch(redisson.getCountDownLatch(c.name()), c);
        }
    }

    private static Object semaphore(RSemaphore s, Driver.Command c) throws InterruptedException {
        int n = (int) c.leaseMillis();
        switch (c.call()) {
            case "acquire":
                s.acquire(n);
                return null;
            case "tryAcquire":
                return c.waitMillis() == 0 ? s.tryAcquire(n) : s.tryAcquire(n, c.waitMillis(), MILLISECONDS);
            case "release":
                s.release(n);
                return null;
            case "addPermits":
                s.addPermits(n);
                return null;
            case "trySetPermits":
                return s.trySetPermits(n);
            case "drainPermits":
                return s.drainPermits();
            case "availablePermits":
                return s.availablePermits();
            default:
                throw new IllegalArgumentException("no call " + c.call());
        }
    }

    private static Object permits(RPermitExpirableSemaphore s, Driver.Command c) throws InterruptedException {
        switch (c.call()) {
            case "acquire":
                return c.leaseMillis() > 0 ? s.acquire(c.leaseMillis(), MILLISECONDS) : s.acquire();
            case "tryAcquire":
                return s.tryAcquire(c.waitMillis(), c.leaseMillis() > 0 ? c.leaseMillis() : -1, MILLISECONDS);
            case "tryRelease":
                return s.tryRelease(c.counter());
            case "updateLeaseTime":
                return s.updateLeaseTime(c.counter(), c.leaseMillis(), MILLISECONDS);
            case "trySetPermits":
                return s.trySetPermits((int) c.leaseMillis());
            case "availablePermits":
                return s.availablePermits();
            default:
                throw new IllegalArgumentException("no call " + c.call());
        }
    }

    private static Object latch(RCountDownLatch l, Driver.Command c) throws InterruptedException {
        switch (c.call()) {
            case "trySetCount":
                return l.trySetCount(c.leaseMillis());
            case "countDown":
                l.countDown();
                return null;
            case "getCount":
                return l.getCount();
            case "delete":
                return l.delete();
            case "await":
                if (c.waitMillis() == 0) {
                    l.await();
                    return true;
                }
                return l.await(c.waitMillis(), MILLISECONDS);
            default:
                throw new IllegalArgumentException("no call " + c.call());
        }
    }
}
