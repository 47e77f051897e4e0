package redistest

import (
	"errors"
	"fmt"
	"strings"
)

// laySentinel writes into each sentinel's configuration what it would otherwise discover in several
// seconds of queries.
func laySentinel(i installation, dir string, ports []int) *Server {
	s := &Server{Kind: KindSentinel}
	primary, replicas, sentinels := ports[0], ports[1:3], ports[3:6]

	s.nodes = append(s.nodes, i.node(dir, primary, ""))
	known := fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2\n", masterSet, primary) +
		fmt.Sprintf("sentinel down-after-milliseconds %s %s\n", masterSet, milliseconds(takenForDead)) +
		fmt.Sprintf("sentinel failover-timeout %s 10000\n", masterSet)
	for _, port := range replicas {
		s.nodes = append(s.nodes, i.node(dir, port, fmt.Sprintf("replicaof 127.0.0.1 %d\n", primary)))
		known += fmt.Sprintf("sentinel known-replica %s 127.0.0.1 %d\n", masterSet, port)
	}

	ids := []string{newID(), newID(), newID()}
	for n, port := range sentinels {
		conf := "sentinel myid " + ids[n] + "\n" + known
		for other, port := range sentinels {
			if other != n {
				conf += fmt.Sprintf("sentinel known-sentinel %s 127.0.0.1 %d %s\n", masterSet, port, ids[other])
			}
		}
		s.sentinels = append(s.sentinels, newInstance(i.binary, dir, port, conf, "--sentinel"))
	}
	return s
}

// sentinelReady returns nil when both replicas are in sync and each sentinel could
// fail over to either of them.
func (s *Server) sentinelReady() error {
	primary, err := s.sentinelPrimary()
	if err != nil {
		return err
	}
	info, err := primary.do("INFO", "replication").ToString()
	if err != nil {
		return err
	}
	if strings.Count(info, "state=online") != 2 {
		return errors.New("redistest: the replicas are not in sync")
	}
	for _, p := range s.sentinels {
		if err := p.do("SENTINEL", "CKQUORUM", masterSet).Error(); err != nil {
			return err
		}
		replicas, err := p.do("SENTINEL", "REPLICAS", masterSet).ToArray()
		if err != nil {
			return err
		}
		linked := 0
		for _, r := range replicas {
			if fields, err := r.AsStrMap(); err == nil && fields["flags"] == "slave" && fields["master-link-status"] == "ok" {
				linked++
			}
		}
		if linked != 2 {
			return errors.New("redistest: a sentinel does not know both replicas")
		}
	}
	return nil
}

// sentinelPrimary asks the first sentinel that answers.
func (s *Server) sentinelPrimary() (p *instance, err error) {
	for _, sentinel := range s.sentinels {
		if p, err = s.primaryOf(sentinel); err == nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("redistest: no sentinel knows the primary: %w", err)
}

func (s *Server) primaryOf(sentinel *instance) (*instance, error) {
	addr, err := sentinel.do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterSet).AsStrSlice()
	if err != nil {
		return nil, err
	}
	return find(s.nodes, strings.Join(addr, ":"))
}

// sentinelFailover returns when every sentinel names the new primary, and both the new
// primary and the other replica have taken their roles. The old primary takes writes, and
// loses them, until the sentinels make it a replica, up to ten seconds later.
func (s *Server) sentinelFailover() error {
	old, err := s.sentinelPrimary()
	if err != nil {
		return err
	}
	// Refused with NOGOODSLAVE or INPROG while an earlier failover settles.
	err = eventually(func() error { return s.sentinels[0].do("SENTINEL", "FAILOVER", masterSet).Error() })
	if err != nil {
		return err
	}
	return eventually(func() error {
		primary, err := s.primaryOf(s.sentinels[0])
		if err != nil {
			return err
		}
		if primary == old {
			return errors.New("redistest: the primary has not changed")
		}
		for _, sentinel := range s.sentinels[1:] {
			if p, err := s.primaryOf(sentinel); err != nil || p != primary {
				return errors.Join(errors.New("redistest: the sentinels do not agree"), err)
			}
		}
		info, err := primary.do("INFO", "replication").ToString()
		if err == nil && !(strings.Contains(info, "role:master") && strings.Contains(info, "state=online")) {
			err = errors.New("redistest: no replica follows the new primary")
		}
		return err
	})
}
