package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// slotCount is how many slots a Cluster has.
const slotCount = 16384

// cluster asks each primary, since their views may differ.
func cluster(ctx context.Context, all []*node) Finding {
	f := Finding{Check: "cluster"}
	full, known := all[0].config(ctx, "cluster-require-full-coverage")
	for _, n := range all {
		info, err := n.clusterInfo(ctx)
		if err != nil {
			f.Level, f.Found = Yellow, "not known: "+harmless(err)
			f.Risk, f.Remedy = "what this check would find", "ACL SETUSER <user> +cluster|info"
			return f
		}
		f.Found = fmt.Sprintf("state %s, %s of 16384 slots served by %d primaries", info["cluster_state"], info["cluster_slots_ok"], len(all))
		part := "names in these slots cannot be locked"
		if known && full == "yes" {
			part = "nothing can be locked, since cluster-require-full-coverage is yes"
		}
		assigned, _ := strconv.Atoi(info["cluster_slots_assigned"])
		switch {
		case assigned < slotCount:
			f.Level = Red
			f.Found += fmt.Sprintf("; %s knows no node for %d slots", n.addr, slotCount-assigned)
			f.Risk, f.Remedy = part, "redis-cli --cluster fix "+n.addr
			return f
		case info["cluster_state"] != "ok" || info["cluster_slots_ok"] != strconv.Itoa(slotCount):
			f.Level = Red
			f.Found += fmt.Sprintf("; for %s the nodes of some slots fail", n.addr)
			f.Risk, f.Remedy = part, "start the nodes that fail: redis-cli --cluster check "+n.addr
			return f
		}
	}
	if known && full == "yes" {
		f.Level = Yellow
		f.Found += ", cluster-require-full-coverage yes"
		f.Risk = "when the nodes of one slot fail, nothing in any slot can be locked, and held locks are lost"
		f.Remedy = "CONFIG SET cluster-require-full-coverage no, on each node"
	}
	return f
}

// clusterInfo returns the node's view of the Cluster.
func (n *node) clusterInfo(ctx context.Context) (map[string]string, error) {
	text, err := n.ask(ctx, "CLUSTER", "INFO").ToString()
	info := make(map[string]string)
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) { // RESP3 has the prefix
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[key] = value
	}
	return info, err
}
