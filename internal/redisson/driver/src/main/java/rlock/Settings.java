package rlock;

import java.util.List;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;
import org.redisson.config.ShardedSubscriptionMode;
import org.redisson.config.SubscriptionMode;

/**
 * What the Go side decides of Redisson's configuration. All else but the read mode is Redisson's default.
 *
 * @param addresses of one server, or of nodes of a Cluster
 * @param replicas  of that one server. If there are any, Redisson subscribes there, and nowhere else
 * @param watchdog  lockWatchdogTimeout in milliseconds
 * @param sharded   shardedSubscriptionMode: AUTO, ON or OFF
 */
record Settings(
        List<String> addresses, List<String> replicas, boolean cluster, long watchdog, ShardedSubscriptionMode sharded) {

    Config config() {
        Config config = new Config().setLockWatchdogTimeout(watchdog);
        String[] nodes = urls(addresses);
        if (cluster) {
            // Redisson reads from replicas by default, which may not have the last write yet.
            config.useClusterServers().addNodeAddress(nodes).setShardedSubscriptionMode(sharded).setReadMode(ReadMode.MASTER);
        } else if (replicas != null) {
            config.useMasterSlaveServers()
                    .setMasterAddress(nodes[0])
                    .addSlaveAddress(urls(replicas))
                    .setReadMode(ReadMode.MASTER)
                    .setSubscriptionMode(SubscriptionMode.SLAVE);
        } else {
            config.useSingleServer().setAddress(nodes[0]);
        }
        return config;
    }

    private static String[] urls(List<String> addresses) {
        return addresses.stream().map(address -> "redis://" + address).toArray(String[]::new);
    }
}
