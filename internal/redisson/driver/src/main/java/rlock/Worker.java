package rlock;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.util.Arrays;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.function.Consumer;

/** A thread that executes the commands that it is given, one after the other. */
final class Worker extends Thread {

    private final BlockingQueue<Driver.Command> commands = new LinkedBlockingQueue<>();
    private final Consumer<Driver.Command> execute;

    Worker(String name, Consumer<Driver.Command> execute) {
        super(name);
        this.execute = execute;
        setDaemon(true);
        start();
    }

    void give(Driver.Command command) {
        commands.add(command);
    }

    /**
     * Whether it waits for a message, and would get it. Redisson's waiters sleep on a semaphore, to which a message that
     * comes between their last try and this adds no permit if it is meant for all of them. Those of a latch sleep at a
     * gate. The state and the stack are of one moment: Thread's own are of two, between which it may go to sleep.
     */
    boolean isAsleep() {
        ThreadInfo now = ManagementFactory.getThreadMXBean().getThreadInfo(getId(), Integer.MAX_VALUE);
        return now != null
                && (now.getThreadState() == State.WAITING || now.getThreadState() == State.TIMED_WAITING)
                && Arrays.stream(now.getStackTrace())
                        .map(StackTraceElement::getClassName)
                        .anyMatch(name -> name.equals(Semaphore.class.getName()) || name.endsWith(".ReclosableLatch"));
    }

    @Override
    public void run() {
        try {
            while (true) {
                execute.accept(commands.take());
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException(e); // nobody interrupts it
        }
    }
}
