package rlock.bench;

import static java.util.concurrent.TimeUnit.NANOSECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.HdrHistogram.ConcurrentHistogram;
import org.HdrHistogram.Histogram;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** The run of one job, and what its threads count. */
final class Run {

    private static final long LONGEST = SECONDS.toNanos(120);
    private static final int WARMING = 32; // threads

    final Job job;
    final Ground ground;
    private final RedissonClient redisson;

    final Histogram wait = new ConcurrentHistogram(1, LONGEST, 3);
    final Histogram pair = new ConcurrentHistogram(1, LONGEST, 3);
    final Histogram nested = new ConcurrentHistogram(1, LONGEST, 3);
    final Histogram handover = new ConcurrentHistogram(1, LONGEST, 3);

    private volatile boolean over; // the drain has ended with waiters left
    private volatile boolean moving; // and others did enter

    // this protects the next lines
    private long overlaps;
    private long failures;
    private long stuck;
    private long cut;
    private String firstFailure;

    Run(Job job, RedissonClient redisson, Ground ground) {
        this.job = job;
        this.redisson = redisson;
        this.ground = ground;
    }

    static void record(Histogram histogram, long nanos) {
        histogram.recordValue(Math.min(Math.max(nanos, 1), LONGEST));
    }

    /** Takes and frees locks so many times: each thread one of its own, and one that all want a tenth of the times or once. */
    void warmUp(Function<String, RLock> lock, int times) throws InterruptedException {
        String names = job.prefix() + ":warm:" + job.process() + ":";
        int each = times / WARMING;
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < WARMING; i++) {
            RLock own = lock.apply(names + i);
            RLock wanted = lock.apply(names + "all");
            threads.add(new Thread(() -> {
                again(own, each);
                again(wanted, Math.max(1, each / 10));
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static void again(RLock lock, int times) {
        for (int i = 0; i < times; i++) {
            lock.lock();
            lock.unlock();
        }
    }

    /** Does the job from begin on, in nanoseconds since 1970. */
    Report from(long begin) throws InterruptedException {
        long start = System.nanoTime() + begin - Ground.now();
        long end = start + job.duration();
        List<Runner> threads = new ArrayList<>();
        for (int i = 0; i < job.goroutines(); i++) {
            threads.add(new Runner(this, i, redisson, start, end));
        }
        threads.forEach(Thread::start);
        sleepUntil(start);
        long before = cpu();
        sleepUntil(end);
        long cpu = cpu() - before;
        long hung = drain(threads);

        Report r = new Report();
        r.process = job.process();
        r.elapsed = job.duration();
        r.cpu = cpu;
        r.sections = threads.stream().mapToLong(thread -> thread.sections).sum();
        r.least = threads.stream().mapToLong(thread -> thread.sections).min().orElse(0);
        r.most = threads.stream().mapToLong(thread -> thread.sections).max().orElse(0);
        r.wait = Report.Latency.of(wait);
        r.pair = Report.Latency.of(pair);
        r.nested = Report.Latency.of(nested);
        r.handover = Report.Latency.of(handover);
        synchronized (this) {
            r.overlaps = overlaps;
            r.failures = failures;
            r.firstFailure = firstFailure;
            r.stuck = stuck + hung;
            r.cut = cut;
        }
        return r;
    }

    /** Waits for the waiters, and returns how many did not even end when they were interrupted. */
    private long drain(List<Runner> threads) throws InterruptedException {
        long began = System.nanoTime();
        long progress = began;
        for (long entered = ground.entered(); alive(threads) > 0; Thread.sleep(10)) {
            long now = System.nanoTime();
            long n = ground.entered();
            if (n != entered) {
                entered = n;
                progress = now;
            }
            boolean stalled = now - progress > job.stall();
            if (stalled || now - began >= job.drain()) {
                moving = !stalled;
                over = true;
                threads.forEach(Thread::interrupt);
                break;
            }
        }
        for (long end = System.nanoTime() + SECONDS.toNanos(2); alive(threads) > 0 && System.nanoTime() < end; ) {
            Thread.sleep(10);
        }
        return alive(threads);
    }

    private static long alive(List<Runner> threads) {
        return threads.stream().filter(Thread::isAlive).count();
    }

    synchronized void overlap() {
        overlaps++;
    }

    /** Counts what lock or unlock threw, and returns whether to go on. */
    synchronized boolean failed(Exception e) {
        if (over) {
            if (moving) {
                cut++;
            } else {
                stuck++;
            }
            return false;
        }
        failures++;
        if (firstFailure == null) {
            firstFailure = e.toString();
        }
        return true;
    }

    private static void sleepUntil(long nanoTime) throws InterruptedException {
        NANOSECONDS.sleep(nanoTime - System.nanoTime());
    }

    private static long cpu() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }
}
