package redistest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Stop kills the server with SIGKILL: all its processes, in a Sentinel or
// Cluster. Connections are reset, further ones refused. To stop a single node,
// say s.Primary(key).Stop(). An Embedded closes its connections and keeps its data.
func (s *Server) Stop() {
	s.t.Helper()
	s.breakable("Stop")
	if s.embedded != nil {
		s.embedded.Stop()
	}
	s.kill()
}

// Start starts the processes that do not run, at the same addresses, and returns as the
// constructor does; for a single node, when it answers.
func (s *Server) Start() {
	s.t.Helper()
	s.breakable("Start")
	if s.embedded != nil {
		s.embedded.Start()
	}
	s.must(s.run())
}

// Pause freezes the server with SIGSTOP: its connections stay, the kernel takes
// more of them, and nothing is answered until [Server.Resume].
func (s *Server) Pause() {
	s.t.Helper()
	s.setPaused("Pause", true)
}

// Resume lets a paused server go on. It then executes what it was sent meanwhile.
func (s *Server) Resume() {
	s.t.Helper()
	s.setPaused("Resume", false)
}

func (s *Server) setPaused(fault string, paused bool) {
	s.t.Helper()
	s.breakable(fault, KindStandalone, KindSentinel, KindCluster)
	for _, p := range s.instances() {
		s.must(p.setPaused(paused))
	}
}

// takenForDead is how long the sentinels, or the nodes of a Cluster, let a node be silent before
// they take it for dead and fail over. It stands in their configuration, so that it holds from the
// first moment: a machine may be too busy for a node to answer within seconds, also while the
// server starts. A failover that began then goes on when the primary answers again, and loses
// writes in the middle of a test.
const takenForDead = time.Minute

// TakeForDead sets how long the sentinels, or the nodes of a Cluster, let a node be silent
// before they take it for dead and fail over, which is a minute at first. A test that kills a
// primary says less. A node that is stopped and started again remembers it.
func (s *Server) TakeForDead(after time.Duration) {
	s.t.Helper()
	s.breakable("TakeForDead", KindSentinel, KindCluster)
	instances := s.sentinels
	commands := [][]string{{"SENTINEL", "SET", masterSet, "down-after-milliseconds", milliseconds(after)}}
	if s.Kind == KindCluster {
		instances = s.nodes
		commands = [][]string{{"CONFIG", "SET", "cluster-node-timeout", milliseconds(after)}, {"CONFIG", "REWRITE"}}
	}
	for _, p := range instances {
		for _, command := range commands {
			if err := p.do(command...).Error(); err != nil {
				s.must(fmt.Errorf("redistest: %v of %s: %w", command, p.addr(), err))
			}
		}
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Primary returns the node that takes the writes for key at the moment, as a server
// of its own, like [Server.Nodes]. Only a Cluster looks at the key. While a dead
// primary has no successor yet, the dead one is returned.
func (s *Server) Primary(key string) *Server {
	s.t.Helper()
	if s.embedded != nil {
		return s
	}
	return s.alone(s.primary(key))
}

func (s *Server) primary(key string) *instance {
	s.t.Helper()
	p, err := s.nodes[0], error(nil)
	switch s.Kind {
	case KindSentinel:
		p, err = s.sentinelPrimary()
	case KindCluster:
		p, err = s.clusterPrimary(s.slot(key))
	}
	s.must(err)
	return p
}

// Failover makes a replica the primary for key, as an operator does before
// maintenance, and returns when every sentinel or node names it.
//
// A Cluster hands over without losing a write. Sentinels only promote: for up to
// ten seconds the old primary takes writes that are lost later.
func (s *Server) Failover(key string) {
	s.t.Helper()
	s.breakable("Failover", KindSentinel, KindCluster)
	if s.Kind == KindSentinel {
		s.must(s.sentinelFailover())
		return
	}
	old := s.primary(key)
	var replica *instance
	for _, p := range s.runningNodes() {
		if p != old && s.shardOf(p) == s.shardOf(old) {
			replica = p
		}
	}
	if replica == nil {
		s.t.Fatalf("redistest: Failover: no replica of %s runs", old.addr())
	}
	slot := s.slot(key)
	var asked time.Time
	s.must(eventually(func() error {
		err := s.agreed(slot, replica)
		// A node gives a failover up after five seconds, without an answer.
		if err != nil && time.Since(asked) > 6*time.Second {
			asked = time.Now()
			return errors.Join(err, replica.do("CLUSTER", "FAILOVER").Error())
		}
		return err
	}))
}

// MoveSlot moves the slot of key, with all keys in it, from the shard where it began to the
// next one, or back if it is away, and returns when every node knows. Clients see MOVED
// and ASK meanwhile, and sharded subscriptions of the slot end. Cluster only.
func (s *Server) MoveSlot(key string) {
	s.t.Helper()
	s.breakable("MoveSlot", KindCluster)
	slot, source, target := s.move(key)
	s.must(s.migrate(slot, source, target))
	s.must(eventually(func() error { return s.agreed(slot, target) }))
}

// MoveSlotAtomically is MoveSlot by CLUSTER MIGRATESLOTS of Valkey 9: the source sends the keys to
// the target as to a replica, and then hands over the slot at once. Clients see MOVED, and no ASK.
func (s *Server) MoveSlotAtomically(key string) {
	s.t.Helper()
	s.breakable("MoveSlotAtomically", KindCluster)
	slot, source, target := s.move(key)
	members, err := s.view(source)
	s.must(err)
	i := slices.IndexFunc(members, func(m member) bool { return m.p == target })
	number := strconv.Itoa(slot)
	s.must(source.do("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", number, number, "NODE", members[i].id).Error())
	s.must(eventually(func() error { return s.agreed(slot, target) }))
}

// move returns the slot of the key, the node that serves it, and the one to which it moves: that
// of the next shard, or the slot's first one if it is away.
func (s *Server) move(key string) (slot int, source, target *instance) {
	s.t.Helper()
	slot, source = s.slot(key), s.primary(key)
	home := 0
	for slot >= firstSlot(home+1) {
		home++
	}
	to := home
	if s.shardOf(source) == home {
		to = (home + 1) % shards
	}
	other := firstSlot(to) // it has not moved
	if other == slot {
		other++
	}
	target, err := s.clusterPrimary(other)
	s.must(err)
	return slot, source, target
}

// slot asks a node for the slot of key.
func (s *Server) slot(key string) int {
	s.t.Helper()
	var slot int64
	err := errNoneRuns
	for _, p := range s.runningNodes() {
		if slot, err = p.do("CLUSTER", "KEYSLOT", key).AsInt64(); err == nil {
			break
		}
	}
	s.must(err)
	return int(slot)
}

// migrate follows the manual of CLUSTER SETSLOT: the target imports, the source
// migrates, the keys go over, the slot changes hands at the target first.
func (s *Server) migrate(slot int, source, target *instance) error {
	number := strconv.Itoa(slot)
	members, err := s.view(source)
	if err != nil {
		return err
	}
	id := make(map[*instance]string)
	for _, m := range members {
		id[m.p] = m.id
	}
	assign := func(p *instance, args ...string) error {
		return p.do(append([]string{"CLUSTER", "SETSLOT", number}, args...)...).Error()
	}
	if err := errors.Join(assign(target, "IMPORTING", id[source]), assign(source, "MIGRATING", id[target])); err != nil {
		return err
	}
	for {
		keys, err := source.do("CLUSTER", "GETKEYSINSLOT", number, "100").AsStrSlice()
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			return errors.Join(assign(target, "NODE", id[target]), assign(source, "NODE", id[target]))
		}
		command := append([]string{"MIGRATE", "127.0.0.1", strconv.Itoa(target.port), "", "0", milliseconds(patience), "KEYS"}, keys...)
		if err := source.do(command...).Error(); err != nil {
			return err
		}
	}
}

// breakable fails the test if other tests use the server too, or if it is not of one of the
// kinds, if any are named.
func (s *Server) breakable(fault string, kinds ...Kind) {
	s.t.Helper()
	if s.shared {
		s.t.Fatalf("redistest: %s of a server that other tests share: start one with redistest.Sentinel or redistest.Cluster", fault)
	}
	if len(kinds) > 0 && !slices.Contains(kinds, s.Kind) {
		s.t.Fatalf("redistest: a server of kind %s has no %s", s.Kind, fault)
	}
}

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}
