package rlock.bench;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gson.FieldNamingPolicy;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * A process of measurements, which does with Redisson what package worker of the benchmarks does with locks in Go,
 * and is told and tells the same: see its doc.go for the protocol, and its files of the same names for the rest. It
 * does one job after the other until its input ends, since a JVM is fast only after a while.
 */
public final class Main {

    /** Redisson's, of a command, in milliseconds, and a little more. */
    private static final long TIMEOUT = 4_000;

    private static final Gson JSON = new GsonBuilder().setFieldNamingPolicy(FieldNamingPolicy.UPPER_CAMEL_CASE).create();

    public static void main(String[] args) {
        try {
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in, UTF_8));
            boolean first = true;
            for (String line; (line = in.readLine()) != null; first = false) {
                measure(JSON.fromJson(line, Job.class), first, in);
            }
            System.exit(0); // some threads may wait without end: they have been counted
        } catch (Throwable e) {
            System.err.println("redisson: " + e);
            System.exit(1);
        }
    }

    private static void measure(Job job, boolean first, BufferedReader in) throws IOException, InterruptedException {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + job.addr());
        if (job.lease() > 0) {
            config.setLockWatchdogTimeout(TimeUnit.NANOSECONDS.toMillis(job.lease()));
        }
        RedissonClient redisson = Redisson.create(config);
        Run run = new Run(job, redisson, new Ground(job.ground(), job.locks()));
        if (first) {
            run.warmUp(redisson::getLock, job.warmUp()); // as long as it takes for the JVM to compile what all locks need
        }
        run.warmUp(name -> job.mutex(redisson, name), 64); // to open the client's connections
        boolean hold = job.kind().equals("hold");
        if (hold && first) {
            Thread.sleep(TIMEOUT); // sent commands are remembered for so long, and would weigh something
        }
        Holds holds = hold ? Holds.take(job, redisson) : null;

        System.out.println("ready");
        Report report = run.from(Long.parseLong(in.readLine()));
        if (holds != null) {
            in.readLine(); // the word to release
            holds.giveBack(report);
        }
        System.out.println(JSON.toJson(report));
        redisson.shutdown();
    }

    private Main() {}
}
