package rlock;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
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

    @Override
    public void run() {
        while (true) {
            try {
                execute.accept(commands.take());
            } catch (InterruptedException e) {
                // Interrupted while idle: there is nothing to interrupt.
            }
        }
    }
}
