package rlock;

import java.util.List;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;
import org.redisson.config.ShardedSubscriptionMode;

/**
 * What the Go side decides of Redisson's configuration. All else but the read mode is Redisson's default.
 *
 * @param addresses of one server, or of nodes of a Cluster
 * @param watchdog  lockWatchdogTimeout in milliseconds
 * @param sharded   shardedSubscriptionMode: AUTO, ON or OFF
 */
record Settings(List<String> addresses, boolean cluster, long watchdog, ShardedSubscriptionMode sharded) {

    Config config() {
        Config config = new Config().setLockWatchdogTimeout(watchdog);
        String[] nodes = addresses.stream().map(address -> "redis://" + address).toArray(String[]::new);
        if (cluster) {
            // Redisson reads from replicas by default, which may not have yet what was just written.
            config.useClusterServers().addNodeAddress(nodes).setShardedSubscriptionMode(sharded).setReadMode(ReadMode.MASTER);
        } else {
            config.useSingleServer().setAddress(nodes[0]);
        }
        return config;
    }
}
