package rlock.guardedset;

import com.google.gson.FieldNamingPolicy;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RScript;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;
import rlock.Fenced;

/**
 * A worker of the guarded set with one of Redisson's locks. Its job is the JSON in the first line of its input, as that
 * of the workers in Go: see bench/faults.
 */
public final class Main {

    /** Those of a server, or of the sentinels of a set. */
    record Address(List<String> init, String masterSet) {

        RedissonClient open(long lease) {
            Config config = new Config().setLockWatchdogTimeout(lease);
            String[] urls = init.stream().map(address -> "redis://" + address).toArray(String[]::new);
            if (masterSet.isEmpty()) {
                config.useSingleServer().setAddress(urls[0]);
            } else {
                config.useSentinelServers().setMasterName(masterSet).addSentinelAddress(urls);
            }
            return Redisson.create(config);
        }
    }

    /** Times are in nanoseconds. The scripts are those of the resource. */
    record Job(
            String form,
            String worker,
            String name,
            Address locks,
            Address data,
            long lease,
            long think,
            long pause,
            List<String> resource,
            String read,
            String write) {}

    public static void main(String[] args) throws InterruptedException, IOException {
        Gson json = new GsonBuilder().setFieldNamingPolicy(FieldNamingPolicy.UPPER_CAMEL_CASE).create();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Job job = json.fromJson(lines.readLine(), Job.class);
        endWith(lines);
        long lease = TimeUnit.NANOSECONDS.toMillis(job.lease());
        RScript data = job.data().open(lease).getScript(StringCodec.INSTANCE);
        RedissonClient redisson = job.locks().open(lease);
        boolean fencing = job.form().equals("token at the resource");
        RLock lock = fencing ? Fenced.of(redisson, job.name()) : redisson.getLock(job.name());
        while (true) {
            try {
                long token = 0; // the resource compares none
                if (fencing) {
                    token = Fenced.lockAndGetToken(lock);
                } else {
                    lock.lock();
                }
                try {
                    increment(job, data, lock, Long.toString(token));
                } finally {
                    lock.unlock();
                }
            } catch (RuntimeException e) { // Redis was out of reach, or the lock was lost
                TimeUnit.NANOSECONDS.sleep(job.think());
            }
            TimeUnit.NANOSECONDS.sleep(ThreadLocalRandom.current().nextLong(job.pause() + 1));
        }
    }

    /** Ends with the input, even if Redisson waits for ever. */
    private static void endWith(BufferedReader lines) {
        Thread end = new Thread(() -> {
            try {
                lines.readLine();
            } catch (IOException e) {
                // The other end is gone.
            }
            Runtime.getRuntime().halt(0);
        });
        end.setDaemon(true);
        end.start();
    }

    /** Reads, thinks and writes; in the form that asks Redis, if the lock is said to be held just before. */
    private static void increment(Job job, RScript data, RLock lock, String token) throws InterruptedException {
        String was = execute(data, job, job.read(), job.worker(), token);
        if (was == null) {
            return;
        }
        TimeUnit.NANOSECONDS.sleep(job.think());
        if (!job.form().equals("Redis asked") || lock.isHeldByCurrentThread()) {
            execute(data, job, job.write(), was, token, job.worker());
        }
    }

    private static String execute(RScript data, Job job, String script, Object... args) {
        return data.eval(RScript.Mode.READ_WRITE, script, RScript.ReturnType.VALUE, List.copyOf(job.resource()), args);
    }

    private Main() {}
}
