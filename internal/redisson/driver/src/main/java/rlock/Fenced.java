package rlock;

import java.lang.reflect.InvocationTargetException;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** The fenced lock, by reflection: Redisson has it since a later version than 3.17.7, with which this is compiled too. */
public final class Fenced {

    /** The lock of that name. An older version has none, which is an UnsupportedOperationException. */
    public static RLock of(RedissonClient redisson, String name) {
        return (RLock) call(RedissonClient.class, redisson, "getFencedLock", name);
    }

    public static Long lockAndGetToken(RLock lock) {
        return (Long) call(lock.getClass(), lock, "lockAndGetToken");
    }

    private static Object call(Class<?> type, Object of, String method, Object... arguments) {
        try {
            Class<?>[] types = arguments.length == 0 ? new Class<?>[0] : new Class<?>[] {String.class};
            return type.getMethod(method, types).invoke(of, arguments);
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof RuntimeException thrown) {
                throw thrown;
            }
            throw new IllegalStateException(e.getCause());
        } catch (ReflectiveOperationException e) {
            throw new UnsupportedOperationException("this version of Redisson has no " + method, e);
        }
    }

    private Fenced() {}
}
