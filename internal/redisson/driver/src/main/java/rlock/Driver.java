package rlock;

import static java.nio.charset.StandardCharsets.UTF_8;
import static java.util.concurrent.TimeUnit.MILLISECONDS;

import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * A program with one Redisson client and some threads, which does what lines of JSON say.
 *
 * <pre>
 *   stdin                                                          stdout
 *   Settings
 *                                                                  {"id":0}  connected
 *   {"id":1,"thread":"a","call":"lock","name":"orders"}            {"id":1}
 *   {"id":2,"thread":"b","call":"tryLock","name":"orders",...}     {"id":2,"value":false}
 *   {"id":3,"thread":"b","call":"unlock","name":"orders"}          {"id":3,"exception":"java.lang...","message":"..."}
 *   end of input: the client is shut down
 * </pre>
 *
 * A command is executed by the thread that it names, after those that the thread was given before, except for isAsleep,
 * which is about what it executes; answers come in the order in which they are ready. There is one RLock object a kind
 * and name, as a service keeps it in a field.
 */
public final class Driver {

    /** Of no use to most calls: kind (none for RLock), waitMillis, leaseMillis (0 for the watchdog), counter. */
    record Command(
            long id,
            String thread,
            String call,
            String kind,
            String name,
            long waitMillis,
            long leaseMillis,
            String counter) {}

    record Answer(long id, Object value, String exception, String message) {}

    private final Gson json = new Gson();
    private final PrintStream out = new PrintStream(System.out, true, UTF_8);
    private final RedissonClient redisson;
    private final Map<String, RLock> locks = new ConcurrentHashMap<>();
    private final Map<String, Worker> threads = new HashMap<>();

    private Driver(Settings settings) {
        redisson = Redisson.create(settings.config());
    }

    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        Driver driver = new Driver(new Gson().fromJson(in.readLine(), Settings.class));
        driver.say(new Answer(0, null, null, null));
        for (String line; (line = in.readLine()) != null; ) {
            driver.take(driver.json.fromJson(line, Command.class));
        }
        driver.redisson.shutdown();
        System.exit(0); // some threads may wait for a lock
    }

    private void take(Command command) {
        Worker worker = threads.computeIfAbsent(command.thread(), name -> new Worker(name, this::execute));
        if (command.call().equals("isAsleep")) {
            say(new Answer(command.id(), worker.isAsleep(), null, null));
        } else {
            worker.give(command);
        }
    }

    private void execute(Command command) {
        try {
            say(new Answer(command.id(), call(command), null, null));
        } catch (Throwable e) {
            say(new Answer(command.id(), null, e.getClass().getName(), e.getMessage()));
        }
    }

    private synchronized void say(Answer answer) {
        out.println(json.toJson(answer));
    }

    private Object call(Command c) throws InterruptedException {
        if (Synchronizers.isOne(c.kind())) {
            return Synchronizers.call(redisson, c);
        }
        RLock lock = locks.computeIfAbsent(c.kind() + " " + c.name(), key -> lock(c.kind(), c.name()));
        long lease = c.leaseMillis() > 0 ? c.leaseMillis() : -1; // as lock() and tryLock(wait, unit) have it
        switch (c.call()) {
            case "lock":
                lock.lock(lease, MILLISECONDS);
                return null;
            case "tryLock":
                return c.waitMillis() == 0 && lease < 0 ? lock.tryLock() : lock.tryLock(c.waitMillis(), lease, MILLISECONDS);
            case "unlock":
                lock.unlock();
                return null;
            case "forceUnlock":
                return lock.forceUnlock();
            case "isLocked":
                return lock.isLocked();
            case "isHeldByCurrentThread":
                return lock.isHeldByCurrentThread();
            case "getHoldCount":
                return lock.getHoldCount();
            case "remainTimeToLive":
                return lock.remainTimeToLive();
            case "lockAndGetToken":
                return Fenced.lockAndGetToken(lock);
            case "getToken":
                return Fenced.getToken(lock);
            default:
                throw new IllegalArgumentException("no call " + c.call());
        }
    }

    private RLock lock(String kind, String name) {
        if (kind == null) {
            return redisson.getLock(name);
        }
        switch (kind) {
            case "fenced":
                return Fenced.of(redisson, name);
            case "spin":
                return redisson.getSpinLock(name);
            case "fair":
                return redisson.getFairLock(name);
            case "read":
                return redisson.getReadWriteLock(name).readLock();
            case "write":
                return redisson.getReadWriteLock(name).writeLock();
            default:
                throw new IllegalArgumentException("no kind " + kind);
        }
    }
}
