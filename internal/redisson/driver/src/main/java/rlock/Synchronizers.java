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
            case "tryRelease":
                return s.tryRelease(c.counter());
            case "updateLeaseTime":
                return s.updateLeaseTime(c.counter(), c.leaseMillis(), MILLISECONDS);
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
            case "await":
                l.await();
                return null;
            default:
                throw new IllegalArgumentException("no call " + c.call());
        }
    }
}
