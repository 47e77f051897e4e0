package rlock.bench;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Base64;
import java.util.zip.Deflater;
import org.HdrHistogram.Histogram;

/** What this process has seen: worker.Report. Times are in nanoseconds. */
final class Report {
    int process;
    long sections;
    long elapsed;
    long cpu;
    Latency wait;
    Latency pair;
    Latency nested;
    Latency handover;
    long least;
    long most;
    long overlaps;
    long failures;
    String firstFailure;
    long stuck;
    long cut;
    double bytesPerLock;
    int goroutines;
    long lost;

    /** worker.Latency. The histogram is in base64 twice: so both libraries exchange it, and so JSON has bytes. */
    record Latency(long count, long mean, long p50, long p90, long p99, long p999, long worst, String histogram) {

        static Latency of(Histogram h) {
            if (h.getTotalCount() == 0) {
                return null;
            }
            ByteBuffer bytes = ByteBuffer.allocate(h.getNeededByteBufferCapacity());
            int length = h.encodeIntoCompressedByteBuffer(bytes, Deflater.DEFAULT_COMPRESSION);
            Base64.Encoder base64 = Base64.getEncoder();
            return new Latency(h.getTotalCount(), (long) h.getMean(), h.getValueAtPercentile(50), h.getValueAtPercentile(90),
                    h.getValueAtPercentile(99), h.getValueAtPercentile(99.9), h.getMaxValue(),
                    base64.encodeToString(base64.encode(Arrays.copyOf(bytes.array(), length))));
        }
    }
}
