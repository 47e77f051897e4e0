package rlock;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
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
 * which is about what it executes; answers come in the order in which they are ready. There is one object a kind
 * and name, as a service keeps it in a field.
 */
public final class Driver {

    /** Without a kind it is about an RLock. */
    record Command(long id, String thread, String call, String kind, String name, List<Object> args) {}

    record Answer(long id, Object value, String exception, String message) {}

    private final Gson json = new Gson();
    private final PrintStream out = new PrintStream(System.out, true, UTF_8);
    private final RedissonClient redisson;
    private final Map<String, Object> objects = new ConcurrentHashMap<>();
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
            Throwable thrown = e instanceof InvocationTargetException ? e.getCause() : e;
            say(new Answer(command.id(), null, thrown.getClass().getName(), thrown.getMessage()));
        }
    }

    private synchronized void say(Answer answer) {
        out.println(json.toJson(answer));
    }

    /** Calls the method that has the name and takes the arguments: numbers, strings, and a TimeUnit by its name. */
    private Object call(Command c) throws ReflectiveOperationException {
        Object of = objects.computeIfAbsent(c.kind() + " " + c.name(), key -> object(c.kind(), c.name()));
        List<Object> given = c.args() == null ? List.of() : c.args();
        for (Method method : of.getClass().getMethods()) {
            Class<?>[] types = method.getParameterTypes();
            if (!method.getName().equals(c.call()) || types.length != given.size()) {
                continue;
            }
            Object[] args = new Object[types.length];
            for (int i = 0; i < args.length; i++) {
                args[i] = as(types[i], given.get(i));
            }
            if (!Arrays.asList(args).contains(null)) {
                return method.invoke(of, args);
            }
        }
        throw new UnsupportedOperationException("this version of Redisson has no " + c.call());
    }

    private static Object as(Class<?> type, Object value) {
        if (value instanceof Double number) {
            return type == int.class ? (Object) number.intValue() : type == long.class ? (Object) number.longValue() : null;
        }
        return type == TimeUnit.class ? TimeUnit.valueOf((String) value) : type == String.class ? value : null;
    }

    private Object object(String kind, String name) {
        return switch (kind == null ? "" : kind) {
            case "" -> redisson.getLock(name);
            case "fenced" -> Fenced.of(redisson, name);
            case "spin" -> redisson.getSpinLock(name);
            case "fair" -> redisson.getFairLock(name);
            case "read" -> redisson.getReadWriteLock(name).readLock();
            case "write" -> redisson.getReadWriteLock(name).writeLock();
            case "semaphore" -> redisson.getSemaphore(name);
            case "permits" -> redisson.getPermitExpirableSemaphore(name);
            case "latch" -> redisson.getCountDownLatch(name);
            default -> throw new IllegalArgumentException("no kind " + kind);
        };
    }
}
