package rlock;

import static java.nio.charset.StandardCharsets.UTF_8;
import static java.util.concurrent.TimeUnit.NANOSECONDS;

import com.google.gson.FieldNamingPolicy;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.locks.LockSupport;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * A process of measurements, which does with Redisson what bench/worker.go does with locks in Go, and is told and tells
 * the same; its rules are there. It does one job after the other until its input ends, since a JVM is fast only after a
 * while. Times are in nanoseconds.
 */
public final class Bench {

    private static final Gson JSON = new GsonBuilder().setFieldNamingPolicy(FieldNamingPolicy.UPPER_CAMEL_CASE).create();
    private static final VarHandle LONG = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

    /** Redisson remembers sent commands for so long, in milliseconds, which would weigh something. */
    private static final long REMEMBERED = 4_000;

    private static final int THREADS = 64; // that take the locks to hold: the one that takes a lock has to give it back
    private static final long LONGEST_SPIN = 500_000; // of a section that computes; a longer one waits for something else
    private static final long ALONE = 1L << 32; // what a section that excludes all others adds to INSIDE

    // Of a place of the memory that all processes map: where its fields are, and its size.
    private static final int INSIDE = 0;
    private static final int ENTERED = 8;
    private static final int LAST = 16;
    private static final int FREED = 24;
    private static final int SIZE = 64;

    record Job(
            String kind, List<String> addrs, long lease, String prefix, String ground, int process, int goroutines, int locks,
            int warmUp, boolean hold, boolean turns, long section, int reads, int depth, long duration) {}

    /** What this process has seen: stats in bench/worker.go. */
    private static final class Stats {
        final AtomicLongArray wait = new AtomicLongArray(2048);
        final AtomicLongArray pair = new AtomicLongArray(2048);
        final AtomicLongArray nested = new AtomicLongArray(2048);
        final AtomicLongArray handover = new AtomicLongArray(2048);
        final AtomicLong sections = new AtomicLong();
        final AtomicLong overlaps = new AtomicLong();
        final AtomicLong failures = new AtomicLong();
        final AtomicLong stuck = new AtomicLong();
        final AtomicLong cut = new AtomicLong();
        final AtomicLong lost = new AtomicLong();
        volatile String firstFailure;
        double bytes;
        long cpu;
    }

    private final Job job;
    private final RedissonClient redisson;
    private final ByteBuffer ground;

    private final Stats stats = new Stats();
    private volatile boolean over; // waiters were left
    private volatile boolean moving; // others had sections meanwhile

    // Of held locks.
    private final CountDownLatch release = new CountDownLatch(1);
    private final List<Thread> holders = new ArrayList<>();

    public static void main(String[] args) {
        try {
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in, UTF_8));
            boolean first = true;
            for (String line; (line = in.readLine()) != null; first = false) {
                new Bench(JSON.fromJson(line, Job.class)).measure(first, in);
            }
            System.exit(0); // some threads may wait without end: they have been counted
        } catch (Throwable e) {
            System.err.println("redisson: " + e);
            System.exit(1);
        }
    }

    private Bench(Job job) throws IOException {
        this.job = job;
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + job.addrs().get(0));
        if (job.lease() > 0) {
            config.setLockWatchdogTimeout(NANOSECONDS.toMillis(job.lease()));
        }
        redisson = Redisson.create(config);
        try (FileChannel file = FileChannel.open(Path.of(job.ground()), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            ground = file.map(FileChannel.MapMode.READ_WRITE, 0, (long) job.locks() * SIZE);
        }
    }

    private void measure(boolean first, BufferedReader in) throws Exception {
        warmUp(first ? job.warmUp() : 64); // as long as it takes to compile what all locks need; then for the connections
        if (job.hold()) {
            if (first) {
                Thread.sleep(REMEMBERED);
            }
            take();
        }
        System.out.println("ready");
        run(Long.parseLong(in.readLine()));
        if (job.hold()) {
            in.readLine(); // the word to release
            release.countDown();
            for (Thread holder : holders) {
                holder.join();
            }
        }
        System.out.println(JSON.toJson(stats));
        redisson.shutdown();
    }

    /** The lock of that name, of the kind that is measured: of a read-write lock, the writers'. */
    private RLock mutex(String name) {
        return switch (job.kind()) {
            case "" -> redisson.getLock(name);
            case "fair" -> redisson.getFairLock(name);
            case "read-write" -> redisson.getReadWriteLock(name).writeLock();
            default -> throw new IllegalArgumentException("no kind of lock " + job.kind());
        };
    }

    private String name(int lock) {
        return job.prefix() + ":" + lock;
    }

    /** Takes and frees locks so many times: each of 32 threads its own, and one that all want a tenth of the times. */
    private void warmUp(int times) throws InterruptedException {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 32; i++) {
            String names = job.prefix() + ":warm:" + job.process() + ":";
            RLock own = mutex(names + i);
            RLock wanted = mutex(names + "all");
            Thread thread = new Thread(() -> {
                for (int n = 0; n < times / 32; n++) {
                    RLock lock = n % 11 == 0 ? wanted : own;
                    lock.lock();
                    lock.unlock();
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    /** Does the job from begin on, in nanoseconds since 1970. */
    private void run(long begin) throws InterruptedException {
        long end = System.nanoTime() + begin - now() + job.duration();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < job.goroutines(); i++) {
            int lock = (job.process() * job.goroutines() + i) % job.locks();
            Thread thread = new Thread(() -> loop(lock, end));
            thread.setDaemon(true);
            threads.add(thread);
        }
        NANOSECONDS.sleep(begin - now());
        long before = cpu();
        threads.forEach(Thread::start);
        NANOSECONDS.sleep(end - System.nanoTime());
        stats.cpu = cpu() - before;
        join(threads, 100);
        long entered = entered();
        if (join(threads, 1000) > 0) {
            moving = entered() != entered;
            over = true;
            threads.forEach(Thread::interrupt);
            stats.stuck.addAndGet(join(threads, 2000));
        }
    }

    /** Waits for threads, so many milliseconds, and returns how many have not ended. */
    private static long join(List<Thread> threads, long millis) throws InterruptedException {
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
        for (Thread thread : threads) {
            thread.join(Math.max(1, NANOSECONDS.toMillis(until - System.nanoTime())));
        }
        return threads.stream().filter(Thread::isAlive).count();
    }

    private void loop(int lock, long end) {
        RLock writer = mutex(name(lock));
        RLock reader = job.reads() > 0 ? redisson.getReadWriteLock(name(lock)).readLock() : null;
        boolean shared;
        do {
            while (job.turns() && !turn(lock)) {
                LockSupport.parkNanos(100_000);
                if (System.nanoTime() > end) {
                    return;
                }
            }
            shared = ThreadLocalRandom.current().nextInt(100) < job.reads();
        } while (section(shared ? reader : writer, lock, shared, end));
    }

    private boolean turn(int lock) {
        long last = (long) LONG.getVolatile(ground, lock * SIZE + LAST) - 1;
        return last != job.process() && (last >= 0 || job.process() == 0);
    }

    /** One lock, section and unlock, shared with other readers or not. Returns whether to go on. */
    private boolean section(RLock mutex, int lock, boolean shared, long end) {
        long since = now();
        long began = System.nanoTime();
        try {
            mutex.lockInterruptibly();
        } catch (Exception e) {
            record(stats.wait, System.nanoTime() - began);
            return failed(e) && System.nanoTime() < end;
        }
        long got = System.nanoTime();
        record(stats.wait, got - began);
        enter(lock, shared, since);
        try {
            nest(mutex);
        } catch (Exception e) {
            return failed(e);
        }
        spend(got);
        if (!shared) {
            LONG.setVolatile(ground, lock * SIZE + FREED, now());
        }
        add(lock, INSIDE, shared ? -1 : -ALONE);
        long left = System.nanoTime();
        Thread.interrupted(); // a thread that is told to end while it has the lock gives it back first
        boolean goesOn = true;
        try {
            mutex.unlock();
        } catch (Exception e) {
            goesOn = failed(e);
        }
        long freed = System.nanoTime();
        record(stats.pair, got - began + freed - left);
        if (!goesOn || freed > end) {
            return false;
        }
        stats.sections.incrementAndGet();
        return true;
    }

    private void enter(int lock, boolean shared, long since) {
        long others = add(lock, INSIDE, shared ? 1 : ALONE);
        add(lock, ENTERED, 1);
        if (shared ? others >= ALONE : others != 0) {
            stats.overlaps.incrementAndGet();
        }
        if (shared) {
            return;
        }
        long before = (long) LONG.getAndSet(ground, lock * SIZE + LAST, job.process() + 1L);
        long freed = (long) LONG.getVolatile(ground, lock * SIZE + FREED);
        if (before != 0 && before != job.process() + 1 && since < freed) {
            record(stats.handover, now() - freed);
        }
    }

    /** Takes a lock that is held to the depth of the job, and notes the average of these pairs. */
    private void nest(RLock mutex) throws InterruptedException {
        if (job.depth() == 1) {
            return;
        }
        long began = System.nanoTime();
        for (int i = 1; i < job.depth(); i++) {
            mutex.lockInterruptibly();
        }
        for (int i = 1; i < job.depth(); i++) {
            mutex.unlock();
        }
        record(stats.nested, (System.nanoTime() - began) / (job.depth() - 1));
    }

    private void spend(long since) {
        if (job.section() > LONGEST_SPIN) {
            LockSupport.parkNanos(job.section());
            return;
        }
        while (System.nanoTime() - since < job.section()) {
            Thread.onSpinWait();
        }
    }

    /** Counts what lock or unlock threw, and returns whether to go on. It takes a millisecond. */
    private boolean failed(Exception e) {
        LockSupport.parkNanos(1_000_000);
        if (over) {
            (moving ? stats.cut : stats.stuck).incrementAndGet();
            return false;
        }
        stats.failures.incrementAndGet();
        if (stats.firstFailure == null) {
            stats.firstFailure = e.toString();
        }
        return true;
    }

    /** Takes the locks to hold, and weighs them. */
    private void take() throws InterruptedException {
        CountDownLatch taken = new CountDownLatch(THREADS);
        long before = memory();
        for (int i = 0; i < THREADS; i++) {
            int first = i;
            Thread holder = new Thread(() -> hold(first, taken));
            holder.setDaemon(true);
            holder.setUncaughtExceptionHandler((thread, e) -> {
                System.err.println("redisson: taking " + job.locks() + " locks: " + e);
                System.exit(1);
            });
            holders.add(holder);
            holder.start();
        }
        taken.await();
        stats.bytes = (double) (memory() - before) / job.locks();
    }

    private void hold(int first, CountDownLatch taken) {
        List<RLock> held = new ArrayList<>();
        for (int lock = first; lock < job.locks(); lock += THREADS) {
            RLock mutex = mutex(name(lock));
            mutex.lock();
            held.add(mutex);
        }
        taken.countDown();
        try {
            release.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e); // no thread interrupts it
        }
        for (RLock mutex : held) {
            try {
                mutex.unlock();
            } catch (Exception e) {
                stats.lost.incrementAndGet();
                stats.firstFailure = e.toString();
            }
        }
    }

    private static long memory() {
        System.gc();
        System.gc();
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }

    /** Counts a duration in its bucket: see histogram in bench/ground.go. */
    private static void record(AtomicLongArray histogram, long nanos) {
        long v = Math.min(Math.max(nanos, 0), TimeUnit.MINUTES.toNanos(2));
        int e = Math.max(0, 64 - Long.numberOfLeadingZeros(v) - 7);
        histogram.incrementAndGet(e * 64 + (int) (v >> e));
    }

    private long entered() {
        long all = 0;
        for (int lock = 0; lock < job.locks(); lock++) {
            all += (long) LONG.getVolatile(ground, lock * SIZE + ENTERED);
        }
        return all;
    }

    private long add(int lock, int field, long n) {
        return (long) LONG.getAndAdd(ground, lock * SIZE + field, n);
    }

    /** Nanoseconds since 1970, as other processes count them. */
    private static long now() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000_000 + now.getNano();
    }

    private static long cpu() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }
}
