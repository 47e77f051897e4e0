package rlocktest

import (
	"fmt"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// patience is the longest wait of an assertion for a command in flight. Only an assertion that
// fails lasts so long.
const patience = 5 * time.Second

// AssertFree reports an error if the lock of that name is held. It waits for a release that is
// under way, as after a cancelled Lock, for five seconds at most, and never until the lease ends.
// It reports whether the lock is free.
func (s *Server) AssertFree(name string) bool {
	s.t.Helper()
	return s.await(s.leaseOf(name), func() string {
		if m := s.redis.Miniredis(); m.Exists(name) {
			return fmt.Sprintf("the lock %q is not free: %s", name, s.describe(m, name))
		}
		return ""
	})
}

// AssertHeld reports an error unless the client holds the lock of that name, as the server sees it;
// a hold that was passed on ([rlock.Hold.Pass]) does not count until it is resumed. It waits for a
// Lock that is under way, for five seconds at most, and reports whether the client holds the lock.
// [rlock.Lock.IsHeld] and [rlock.Hold.Valid] report on one goroutine or handle.
func (s *Server) AssertHeld(name string, client *rlock.Client) bool {
	s.t.Helper()
	if client == nil {
		s.t.Errorf("rlocktest: AssertHeld(%q): the client is nil", name)
		return false
	}
	return s.await(patience, func() string {
		m := s.redis.Miniredis()
		for _, owner := range owners(m, name) {
			if owner.ClientID() == inspect.Of(client).ID() && !owner.IsPassed() {
				return ""
			}
		}
		if !m.Exists(name) {
			return fmt.Sprintf("the lock %q is not held by %s: it is free; %s", name, s.nameOf(inspect.Of(client).ID()), s.held())
		}
		return fmt.Sprintf("the lock %q is not held by %s: %s", name, s.nameOf(inspect.Of(client).ID()), s.describe(m, name))
	})
}

// AssertNothingHeld reports an error for each lock that is held, and for each for which a client
// waits. Call it at the end of a test, before the clients are closed, to see that no code has kept
// a lock:
//
//	defer server.AssertNothingHeld()
//
// It waits for releases that are under way, as AssertFree does. A lock that is left to its lease
// ([rlock.WithMinHold], [rlock.Hold.Pass]) counts while the lease lasts. Other data on the server
// do not count. AssertNothingHeld reports whether nothing is held.
func (s *Server) AssertNothingHeld() bool {
	s.t.Helper()
	least := patience
	for _, key := range s.locks() {
		least = min(least, s.leaseOf(key))
	}
	return s.await(least, func() string {
		m := s.redis.Miniredis()
		var left []string
		for _, key := range m.Keys() {
			switch {
			case len(owners(m, key)) > 0:
				left = append(left, fmt.Sprintf("the lock %q is left: %s", key, s.describe(m, key)))
			case waits(m, key):
				left = append(left, fmt.Sprintf("a client waits for the lock of the queue %q", key))
			}
		}
		return strings.Join(left, "\n")
	})
}

// await reports the error that wrong returns, unless wrong returns "" within the limit.
func (s *Server) await(limit time.Duration, wrong func() string) bool {
	s.t.Helper()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		message := wrong()
		switch {
		case message == "":
			return true
		case time.Since(begin)+time.Millisecond >= limit:
			s.t.Errorf("rlocktest: %s", message)
			return false
		}
	}
}

// leaseOf returns a little less than the rest of a lock's lease, so that no assertion waits for its
// end: a client releases a lock shortly before its fixed lease ends. It returns patience if that is
// shorter, or if the lock is free.
func (s *Server) leaseOf(name string) time.Duration {
	if left := s.redis.Miniredis().TTL(name); left > 0 {
		return min(left-left/10, patience)
	}
	return patience
}

// locks returns the keys of the locks that are held.
func (s *Server) locks() (keys []string) {
	m := s.redis.Miniredis()
	for _, key := range m.Keys() {
		if len(owners(m, key)) > 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

// held lists the locks that are held, for messages.
func (s *Server) held() string {
	locks := s.locks()
	if len(locks) == 0 {
		return "no lock is held"
	}
	return fmt.Sprintf("the locks that are held are %q", locks)
}

// owners returns the owners of a lock, none if the key is not a lock. They stand in the fields of a
// hash, or the members of a semaphore's sorted set, whose scores are the ends of their leases.
func owners(m *miniredis.Miniredis, key string) (owners []wire.OwnerText) {
	members, _ := m.HKeys(key)
	permits, _ := m.ZMembers(key) // the members of a queue are no owners
	for _, owner := range permits {
		if end, _ := m.ZScore(key, owner); end > float64(time.Now().UnixMilli()) {
			members = append(members, owner)
		}
	}
	for _, member := range members {
		if wire.IsOwner(member) {
			owner, _ := wire.OwnerText(member).CutWrite()
			owners = append(owners, owner)
		}
	}
	return owners
}

// waits reports whether the key is a queue with a ticket in it: see docs/protocol.md.
func waits(m *miniredis.Miniredis, key string) bool {
	if !strings.HasPrefix(key, "rlock_queue:") {
		return false
	}
	members, _ := m.ZMembers(key)
	for _, member := range members {
		if _, ok := wire.ParseMember(member); ok {
			return true
		}
	}
	return false
}

// describe names the holders of a lock.
func (s *Server) describe(m *miniredis.Miniredis, key string) string {
	var all []string
	for _, owner := range owners(m, key) {
		words := fmt.Sprintf("held by %s, owner %d", s.nameOf(owner.ClientID()), owner.OwnerID())
		if owner.IsPassed() {
			words = fmt.Sprintf("passed on by %s, and not resumed yet", s.nameOf(owner.ClientID()))
		}
		all = append(all, words)
	}
	if len(all) == 0 {
		return "its key is not that of a lock"
	}
	return fmt.Sprintf("it is %s, for %v unless it is renewed", strings.Join(all, ", and "), m.TTL(key))
}

// nameOf returns a name for the client with that ID.
func (s *Server) nameOf(client string) string {
	if client == wire.OwnerText(thief).ClientID() {
		return "the client of Steal"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.clients {
		if client == inspect.Of(m.Client).ID() {
			return fmt.Sprintf("client %d", m.number)
		}
	}
	return "a client that this server did not make"
}
