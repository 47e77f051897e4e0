package rlock.bench;

/** What this process is to do: the fields of worker.Job that concern it. Times are in nanoseconds. */
record Job(
        String kind,
        String addr,
        long lease,
        String prefix,
        String ground,
        int process,
        int goroutines, // threads, here
        int locks,
        int warmUp,
        long section,
        int depth,
        long duration,
        long stall,
        long drain) {

    String name(int lock) {
        return prefix + ":" + lock;
    }
}
