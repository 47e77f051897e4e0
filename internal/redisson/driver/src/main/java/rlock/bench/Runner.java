package rlock.bench;

import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.locks.LockSupport;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** One thread of a run: worker's runner. */
final class Runner extends Thread {

    /** The longest section that computes; a longer one waits for something else. */
    private static final long LONGEST_SPIN = 500_000;

    private final Run run;
    private final Job job;
    private final Ground ground;
    private final int lock;
    private final RLock mutex;
    private final RLock reader; // null if the lock has none
    private final long start;
    private final long end;

    long sections;

    Runner(Run run, int index, RedissonClient redisson, long start, long end) {
        this.run = run;
        this.job = run.job;
        this.ground = run.ground;
        this.lock = (job.process() * job.goroutines() + index) % job.locks();
        this.mutex = job.mutex(redisson, job.name(lock));
        this.reader = job.reads() > 0 ? redisson.getReadWriteLock(job.name(lock)).readLock() : null;
        this.start = start;
        this.end = end;
        setDaemon(true);
    }

    @Override
    public void run() {
        LockSupport.parkNanos(start - System.nanoTime());
        switch (job.kind()) {
            case "loop" -> {
                while (next()) {}
            }
            case "nest" -> nest();
            case "handover" -> takeTurns();
            default -> throw new IllegalStateException("no kind " + job.kind());
        }
    }

    private boolean next() {
        boolean shared = ThreadLocalRandom.current().nextInt(100) < job.reads();
        return section(shared ? reader : mutex, shared);
    }

    /** One lock, section and unlock, shared with other readers or not. Returns whether to go on. */
    private boolean section(RLock mutex, boolean shared) {
        long since = Ground.now();
        long began = System.nanoTime();
        try {
            mutex.lockInterruptibly();
        } catch (Exception e) {
            Run.record(run.wait, System.nanoTime() - began);
            return run.failed(e) && pause() && System.nanoTime() < end;
        }
        long got = System.nanoTime();
        Run.record(run.wait, got - began);
        if (shared) {
            share();
        } else {
            enter(since);
        }
        spend(got);
        if (shared) {
            ground.unshare(lock);
        } else {
            ground.leave(lock);
        }
        long left = System.nanoTime();
        boolean freed = unlock(mutex);
        long now = System.nanoTime();
        Run.record(run.pair, got - began + now - left);
        if (!freed || now > end) {
            return false;
        }
        sections++;
        return true;
    }

    private void enter(long since) {
        if (!ground.enter(lock)) {
            run.overlap();
        }
        long handover = ground.takeOver(lock, job.process(), since);
        if (handover > 0) {
            Run.record(run.handover, handover);
        }
    }

    private void share() {
        if (!ground.share(lock)) {
            run.overlap();
        }
    }

    /** Returns whether to go on. */
    private boolean unlock(RLock mutex) {
        Thread.interrupted(); // a thread that is told to end while it has the lock gives it back first
        try {
            mutex.unlock();
            return true;
        } catch (Exception e) {
            return run.failed(e) && pause();
        }
    }

    private void spend(long got) {
        if (job.section() > LONGEST_SPIN) {
            LockSupport.parkNanos(job.section());
            return;
        }
        while (System.nanoTime() - got < job.section()) {
            Thread.onSpinWait();
        }
    }

    /** Keeps a call that fails at once from failing a million times. Returns true. */
    private static boolean pause() {
        LockSupport.parkNanos(1_000_000);
        return true;
    }

    /** Takes one lock Depth times. Nested is the average of the pairs inside the outermost. */
    private void nest() {
        int inner = job.depth() - 1;
        try {
            while (true) {
                long since = Ground.now();
                long began = System.nanoTime();
                mutex.lockInterruptibly();
                long got = System.nanoTime();
                enter(since);
                for (int i = 0; i < inner; i++) {
                    mutex.lockInterruptibly();
                }
                for (int i = 0; i < inner; i++) {
                    mutex.unlock();
                }
                long nested = System.nanoTime();
                ground.leave(lock);
                mutex.unlock();
                long freed = System.nanoTime();
                Run.record(run.wait, got - began);
                Run.record(run.nested, (nested - got) / inner);
                Run.record(run.pair, freed - began);
                if (freed > end) {
                    return;
                }
                sections++;
            }
        } catch (Exception e) {
            run.failed(e);
        }
    }

    /** Waits for the lock only after another process has got it, so that each section is handed over. */
    private void takeTurns() {
        do {
            while (ground.last(lock) == job.process() || ground.last(lock) < 0 && job.process() > 0) {
                if (System.nanoTime() > end) {
                    return;
                }
                LockSupport.parkNanos(100_000);
            }
        } while (section(mutex, false));
    }
}
