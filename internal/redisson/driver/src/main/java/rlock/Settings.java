package rlock;

import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.List;
import org.redisson.config.BaseConfig;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;
import org.redisson.config.SubscriptionMode;

/**
 * What the Go side decides of Redisson's configuration. All else but the read mode is Redisson's default.
 *
 * @param addresses of one server, or of nodes of a Cluster
 * @param replicas  of that one server. If there are any, Redisson subscribes there, and nowhere else
 * @param watchdog  lockWatchdogTimeout in milliseconds
 * @param sharded   shardedSubscriptionMode: AUTO, ON or OFF
 * @param prefix    what the NameMapper puts before each name; if it is null there is no NameMapper
 */
record Settings(
        List<String> addresses, List<String> replicas, boolean cluster, long watchdog, String sharded, String prefix) {

    Config config() {
        Config config = new Config().setLockWatchdogTimeout(watchdog);
        String[] nodes = urls(addresses);
        if (cluster) {
            // Redisson reads from replicas by default, which may not have the last write yet.
            shard(map(config.useClusterServers().addNodeAddress(nodes).setReadMode(ReadMode.MASTER)));
        } else if (replicas != null) {
            map(config.useMasterSlaveServers()
                    .setMasterAddress(nodes[0])
                    .addSlaveAddress(urls(replicas))
                    .setReadMode(ReadMode.MASTER)
                    .setSubscriptionMode(SubscriptionMode.SLAVE));
        } else {
            map(config.useSingleServer().setAddress(nodes[0]));
        }
        return config;
    }

    /** The interface is in another package in each major version. */
    private <T extends BaseConfig<T>> T map(T config) {
        if (prefix == null) {
            return config;
        }
        try {
            Method set = Arrays.stream(BaseConfig.class.getMethods())
                    .filter(method -> method.getName().equals("setNameMapper"))
                    .findFirst()
                    .orElseThrow();
            Class<?> mapper = set.getParameterTypes()[0];
            Class<?>[] one = {mapper};
            set.invoke(config, Proxy.newProxyInstance(mapper.getClassLoader(), one, (self, method, args) -> {
                switch (method.getName()) {
                    case "map":
                        return args[0] == null ? null : prefix + args[0];
                    case "unmap":
                        return args[0] == null ? null : ((String) args[0]).substring(prefix.length());
                    case "equals":
                        return self == args[0];
                    case "hashCode":
                        return System.identityHashCode(self);
                    default:
                        return "prefix " + prefix;
                }
            }));
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
        return config;
    }

    /** A version without this setting chooses by itself. */
    private void shard(ClusterServersConfig nodes) {
        try {
            Method set = Arrays.stream(ClusterServersConfig.class.getMethods())
                    .filter(method -> method.getName().equals("setShardedSubscriptionMode"))
                    .findFirst()
                    .orElse(null);
            if (set != null) {
                Class<?> mode = set.getParameterTypes()[0];
                set.invoke(nodes, mode.getMethod("valueOf", String.class).invoke(null, sharded));
            } else if (sharded.equals("ON")) {
                throw new UnsupportedOperationException("this version of Redisson has no shardedSubscriptionMode");
            }
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static String[] urls(List<String> addresses) {
        return addresses.stream().map(address -> "redis://" + address).toArray(String[]::new);
    }
}
