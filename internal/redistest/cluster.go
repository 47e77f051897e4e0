package redistest

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	slots  = 16384
	shards = 3
)

// layCluster writes the file in which each node keeps its view of the cluster, as it would be
// after the nodes had met and shared out the slots. Only the two seconds remain for which a
// starting node refuses to be a primary (CLUSTER_WRITABLE_DELAY in cluster.c).
func layCluster(i installation, dir string, ports []int) *Server {
	ids := make([]string, 2*shards)
	for n := range ids {
		ids[n] = newID()
	}
	shardIDs := make([]string, shards)
	for n := range shardIDs {
		shardIDs[n] = newID()
	}
	s := &Server{Kind: KindCluster}
	for n := range ids {
		p := i.node(dir, ports[n], "cluster-enabled yes\ncluster-config-file nodes.conf\ncluster-node-timeout "+milliseconds(takenForDead)+"\n")
		p.files["nodes.conf"] = nodesConf(n, ids, shardIDs, ports)
		s.nodes = append(s.nodes, p)
	}
	return s
}

// nodesConf returns the view of node number self. A line is: id, address, flags,
// primary, last ping, last pong, configuration epoch, state of the link, slots.
// Behind the address stand a host name, here empty, and the id of the shard: from
// version 8 on a primary that was told none is missing in its own CLUSTER SHARDS.
// Redis 6.2 ignores both.
func nodesConf(self int, ids, shardIDs []string, ports []int) string {
	var conf strings.Builder
	for n, id := range ids {
		shard := n % shards
		role, owned := "master -", fmt.Sprintf("%d-%d", firstSlot(shard), firstSlot(shard+1)-1)
		if n >= shards {
			role, owned = "slave "+ids[shard], ""
		}
		if n == self {
			role = "myself," + role
		}
		fmt.Fprintf(&conf, "%s 127.0.0.1:%d@%d,,shard-id=%s %s 0 0 %d connected %s\n", id, ports[n], ports[n]+busOffset, shardIDs[shard], role, shard+1, owned)
	}
	fmt.Fprintf(&conf, "vars currentEpoch %d lastVoteEpoch 0\n", shards)
	return conf.String()
}

// firstSlot returns the first slot of a shard.
func firstSlot(shard int) int { return shard * slots / shards }

// newID returns an id for a node or a sentinel. It is random, so that servers of two test
// binaries that meet at a port do not take each other for members of their own cluster.
func newID() string {
	id := make([]byte, 20)
	_, _ = rand.Read(id) // never fails, says its documentation
	return hex.EncodeToString(id)
}

// clusterReady returns nil when every node that runs finds all slots served and the
// others alive, and every replica is in sync.
func (s *Server) clusterReady() error {
	for _, p := range s.runningNodes() {
		info, err := p.do("CLUSTER", "INFO").ToString()
		if err != nil {
			return err
		}
		if !strings.Contains(info, "cluster_state:ok") {
			return fmt.Errorf("redistest: %s does not find the cluster in order", p.addr())
		}
		role, err := p.do("INFO", "replication").ToString()
		if err != nil {
			return err
		}
		if strings.Contains(role, "role:slave") && !strings.Contains(role, "master_link_status:up") {
			return fmt.Errorf("redistest: %s is not in sync with its primary", p.addr())
		}
		members, err := s.view(p)
		if err != nil {
			return err
		}
		for _, m := range members {
			if m.p.running() && !m.alive {
				return fmt.Errorf("redistest: %s does not find %s alive", p.addr(), m.p.addr())
			}
		}
	}
	return nil
}

// A member is a node as one node of the cluster sees it.
type member struct {
	p       *instance
	id      string
	primary string // the id of its primary; "" if it is one
	alive   bool
	slots   [][2]int // first and last of each range
}

func (m member) serves(slot int) bool {
	return slices.ContainsFunc(m.slots, func(r [2]int) bool { return r[0] <= slot && slot <= r[1] })
}

// view returns the cluster as p sees it.
func (s *Server) view(p *instance) ([]member, error) {
	text, err := p.do("CLUSTER", "NODES").ToString()
	if err != nil {
		return nil, err
	}
	var members []member
	for line := range strings.Lines(text) {
		m, err := s.parseMember(strings.Fields(line))
		if err != nil {
			return nil, fmt.Errorf("redistest: CLUSTER NODES of %s: %q: %w", p.addr(), line, err)
		}
		members = append(members, m)
	}
	return members, nil
}

// parseMember reads a line of CLUSTER NODES: id, address, flags, primary, three
// numbers, the state of the link, and the slots; those in brackets are on their way.
func (s *Server) parseMember(fields []string) (m member, err error) {
	if len(fields) < 8 {
		return m, errors.New("too short")
	}
	addr, _, _ := strings.Cut(fields[1], "@")
	if m.p, err = find(s.nodes, addr); err != nil {
		return m, err
	}
	m.id = fields[0]
	if m.primary = fields[3]; m.primary == "-" {
		m.primary = ""
	}
	m.alive = !strings.Contains(fields[2], "fail") && fields[7] == "connected"
	for _, r := range fields[8:] {
		if strings.HasPrefix(r, "[") {
			continue
		}
		first, last, isRange := strings.Cut(r, "-")
		if !isRange {
			last = first
		}
		var ends [2]int
		for i, text := range []string{first, last} {
			if ends[i], err = strconv.Atoi(text); err != nil {
				return m, err
			}
		}
		m.slots = append(m.slots, ends)
	}
	return m, nil
}

// find returns the process that listens at addr.
func find(instances []*instance, addr string) (*instance, error) {
	for _, p := range instances {
		if p.addr() == addr {
			return p, nil
		}
	}
	return nil, fmt.Errorf("redistest: no server of ours at %q", addr)
}

// shardOf returns the number of the shard that p belongs to, as primary or
// as replica.
func (s *Server) shardOf(p *instance) int { return slices.Index(s.nodes, p) % shards }

var errNoneRuns = errors.New("redistest: no node of the cluster runs")

// runningNodes returns the nodes that can be asked. The others go on without a stopped node,
// but not without a paused one.
func (s *Server) runningNodes() []*instance {
	return slices.DeleteFunc(slices.Clone(s.nodes), func(p *instance) bool { return !p.running() })
}

// clusterPrimary returns the node that serves the slot according to the first node that
// answers.
func (s *Server) clusterPrimary(slot int) (*instance, error) {
	failed := errNoneRuns
	for _, observer := range s.runningNodes() {
		members, err := s.view(observer)
		if err != nil {
			failed = err
			continue
		}
		for _, m := range members {
			if m.serves(slot) {
				return m.p, nil
			}
		}
		failed = fmt.Errorf("redistest: no node serves slot %d according to %s", slot, observer.addr())
	}
	return nil, failed
}

// agreed returns nil when every node knows that p serves the slot, with the others of its
// shard as its replicas, and the cluster is in order. A primary must know its replica for the
// next failover: it ignores requests of unknown ones.
func (s *Server) agreed(slot int, p *instance) error {
	for _, observer := range s.runningNodes() {
		members, err := s.view(observer)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(members, func(m member) bool { return m.p == p })
		if i < 0 || !members[i].serves(slot) {
			return fmt.Errorf("redistest: %s does not see slot %d at %s", observer.addr(), slot, p.addr())
		}
		for _, m := range members {
			if m.p != p && m.p.running() && s.shardOf(m.p) == s.shardOf(p) && m.primary != members[i].id {
				return fmt.Errorf("redistest: %s does not see %s as a replica of %s", observer.addr(), m.p.addr(), p.addr())
			}
		}
	}
	return s.clusterReady()
}
