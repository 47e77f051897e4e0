package rlock.bench;

import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.channels.FileChannel.MapMode;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;

/** The memory that all processes of a measurement map: worker.Ground, of which it has the layout. */
final class Ground {

    private static final VarHandle LONG = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

    // Of a place: where its fields are, and its size.
    private static final int INSIDE = 0;
    private static final int ENTERED = 8;
    private static final int LAST = 16;
    private static final int FREED = 24;
    private static final int SIZE = 64;

    /** What a section that excludes all others adds to INSIDE: more than there are readers. */
    private static final long ALONE = 1L << 32;

    private final ByteBuffer memory;
    private final int locks;

    Ground(String path, int locks) throws IOException {
        this.locks = locks;
        try (FileChannel file = FileChannel.open(Path.of(path), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            memory = file.map(MapMode.READ_WRITE, 0, (long) locks * SIZE);
        }
    }

    /** Nanoseconds since 1970, as other processes count them. */
    static long now() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000_000 + now.getNano();
    }

    /** Begins a section and returns whether no other was under way. */
    boolean enter(int lock) {
        boolean alone = add(lock, INSIDE, ALONE) == 0;
        add(lock, ENTERED, 1);
        return alone;
    }

    /** Begins a section that readers may share, and returns whether none was under way that excludes them. */
    boolean share(int lock) {
        boolean shared = add(lock, INSIDE, 1) < ALONE;
        add(lock, ENTERED, 1);
        return shared;
    }

    /** Ends what share began. */
    void unshare(int lock) {
        add(lock, INSIDE, -1);
    }

    /** Notes an entry. Returns how long the lock was free, if another process waited for this since before; else 0. */
    long takeOver(int lock, int process, long since) {
        long before = (long) LONG.getAndSet(memory, lock * SIZE + LAST, process + 1L);
        long freed = get(lock, FREED);
        return before != 0 && before != process + 1 && since < freed ? now() - freed : 0;
    }

    /** Ends a section; the unlock is next. */
    void leave(int lock) {
        LONG.setVolatile(memory, lock * SIZE + FREED, now());
        add(lock, INSIDE, -ALONE);
    }

    /** The process that entered last, -1 if none has. */
    int last(int lock) {
        return (int) get(lock, LAST) - 1;
    }

    /** How many sections have ever begun, of all locks. */
    long entered() {
        long all = 0;
        for (int lock = 0; lock < locks; lock++) {
            all += get(lock, ENTERED);
        }
        return all;
    }

    private long get(int lock, int field) {
        return (long) LONG.getVolatile(memory, lock * SIZE + field);
    }

    private long add(int lock, int field, long n) {
        return (long) LONG.getAndAdd(memory, lock * SIZE + field, n);
    }
}
