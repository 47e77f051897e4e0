package rlock.bench;

import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** What this process is to do: the fields of worker.Job that concern it. Times are in nanoseconds. */
record Job(
        String kind,
        String lock,
        String addr,
        long lease,
        String prefix,
        String ground,
        int process,
        int goroutines, // threads, here
        int locks,
        int warmUp,
        long section,
        int reads, // percent
        int depth,
        long duration,
        long stall,
        long drain) {

    String name(int lock) {
        return prefix + ":" + lock;
    }

    /** The lock of that name, of the kind that is measured: of a read-write lock, the writers'. */
    RLock mutex(RedissonClient redisson, String name) {
        return switch (lock) {
            case "" -> redisson.getLock(name);
            case "fair" -> redisson.getFairLock(name);
            case "read-write" -> redisson.getReadWriteLock(name).writeLock();
            default -> throw new IllegalArgumentException("no kind of lock " + lock);
        };
    }
}
