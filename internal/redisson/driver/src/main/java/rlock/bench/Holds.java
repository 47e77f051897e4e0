package rlock.bench;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** The locks that a job of kind hold has taken, and what they weigh. */
final class Holds {

    /** How many threads take them: the one that takes a lock has to give it back. */
    private static final int HOLDERS = 64;

    private final CountDownLatch release = new CountDownLatch(1);
    private final List<Thread> holders = new ArrayList<>();
    private final LongAdder lost = new LongAdder();
    private final AtomicReference<Exception> failure = new AtomicReference<>();
    private double bytesPerLock;
    private int threads;

    private Holds() {}

    static Holds take(Job job, RedissonClient redisson) throws InterruptedException {
        Holds holds = new Holds();
        CountDownLatch taken = new CountDownLatch(HOLDERS);
        long memory = memory();
        int threads = threads();
        for (int i = 0; i < HOLDERS; i++) {
            int first = i;
            Thread holder = new Thread(() -> {
                List<RLock> held = new ArrayList<>();
                for (int lock = first; lock < job.locks(); lock += HOLDERS) {
                    RLock mutex = job.mutex(redisson, job.name(lock));
                    mutex.lock();
                    held.add(mutex);
                }
                taken.countDown();
                holds.giveBack(held);
            });
            holder.setDaemon(true);
            holder.setUncaughtExceptionHandler((thread, e) -> {
                System.err.println("redisson: taking " + job.locks() + " locks: " + e);
                System.exit(1);
            });
            holds.holders.add(holder);
            holder.start();
        }
        taken.await();
        holds.bytesPerLock = (double) (memory() - memory) / job.locks();
        holds.threads = threads() - threads - HOLDERS;
        return holds;
    }

    private void giveBack(List<RLock> held) {
        try {
            release.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e); // no thread interrupts it
        }
        for (RLock mutex : held) {
            try {
                mutex.unlock();
            } catch (Exception e) {
                lost.increment();
                failure.set(e);
            }
        }
    }

    /** Gives all locks back and tells the report what they weighed, and how many were lost. */
    void giveBack(Report r) throws InterruptedException {
        release.countDown();
        for (Thread holder : holders) {
            holder.join();
        }
        r.bytesPerLock = bytesPerLock;
        r.goroutines = threads;
        r.lost = lost.sum();
        if (r.lost > 0) {
            r.firstFailure = failure.get().toString();
        }
    }

    private static long memory() {
        System.gc();
        System.gc();
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }

    private static int threads() {
        return ManagementFactory.getThreadMXBean().getThreadCount();
    }
}
