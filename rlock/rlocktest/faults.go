package rlocktest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// thief is the UUID of the owners that Steal writes. It is that of a client of rlock that does not
// exist, since the clients would leave windows to an owner of Redisson.
const thief = "ffffffff-ffff-8fff-bfff-ffffffffffff"

// Lose removes the lock of that name from the server, as an operator, an eviction or a failover
// does. Its holder notices at once: the context of its Hold ends with cause [rlock.ErrLost], and
// Unlock and Release return ErrLost. The first client that waits for the lock is granted it. In
// production the holder notices one round trip later if Redis reports the change of the key
// ([rlock.Advanced].TrackedKeys), else when it renews next, after up to a third of Config.Lease,
// and the waiter within two seconds. The holder is notified, and not asked: it may overlap the next
// one for an instant.
//
// A holder that cannot reach the server notices when its lease ends. A client that was not made by
// [Server.Client] notices as in production.
//
// Outside of a bubble Lose is also how the lease of a dead client ends early. A semaphore loses all
// permits. Lose reports an error if the lock is free.
func (s *Server) Lose(name string) {
	s.t.Helper()
	if !s.redis.Miniredis().Del(name) {
		s.t.Errorf("rlocktest: Lose: the lock %q is free; %s", name, s.held())
	}
	s.tell(name)
}

// Steal gives the lock of that name to another client, for the lease. That client does not exist:
// its lock ends with the lease, or by [Server.Lose]. A client that holds the lock loses it, as by
// Lose. The lock may also be free before: a test of a handler that answers 409 begins with Steal.
//
// A lock that is held as a read-write lock is stolen by a writer; of a semaphore the permits that
// are held are stolen. A semaphore of which no permit is held cannot be stolen: have another client
// take its permits. To steal a RedLock or a MultiLock, steal its parts. Steal reports an error for
// an empty name, and for a lease that is not positive.
func (s *Server) Steal(name string, lease time.Duration) {
	s.t.Helper()
	if name == "" || lease <= 0 {
		s.t.Errorf("rlocktest: Steal(%q, %v): it needs a name and a positive lease", name, lease)
		return
	}
	m := s.redis.Miniredis()
	defer s.tell(name)
	if permits, err := m.ZMembers(name); err == nil {
		end := float64(time.Now().Add(lease).UnixMilli())
		var stolen []string
		for i, owner := range permits {
			if !wire.IsOwner(owner) { // "*" counts the permits of owners that have several
				continue
			}
			_, more := wire.OwnerText(owner).CutMore()
			stolen = append(stolen, string(wire.OwnerText(fmt.Sprintf("%s:%d", thief, i+1)).WithMore(more)))
			_, _ = m.ZAdd(name, end, stolen[len(stolen)-1])
		}
		for _, owner := range permits {
			if wire.IsOwner(owner) && !slices.Contains(stolen, owner) {
				_, _ = m.ZRem(name, owner)
			}
		}
		m.SetTTL(name, lease)
		return
	}
	owner := thief + ":1"
	fields, _ := m.HKeys(name)
	if slices.Contains(fields, "mode") {
		owner = wire.OwnerText(owner).WriteField()
		m.HSet(name, "mode", "write")
	}
	m.HSet(name, owner, "1") // first, so that the lock is free at no time
	m.SetTTL(name, lease)
	for _, field := range fields {
		if field != "mode" && field != owner {
			m.HDel(name, field)
		}
	}
}

// tell makes the clients ask Redis about the lock.
func (s *Server) tell(name string) {
	s.mu.Lock()
	clients := slices.Clone(s.clients)
	s.mu.Unlock()
	for _, m := range clients {
		locks, _ := driver.ClientOf(m.Client)
		locks.AskAbout(name)
	}
}

// Refuse makes the server answer commands with an error, such as
//
//	READONLY You can't write against a read only replica.
//	OOM command not allowed when used memory > 'maxmemory'.
//	NOPERM this user has no permissions to run the 'evalsha' command
//
// until [Server.Heal] is called without a client. The commands are given by name; without a name
// all are refused. A lock is taken, renewed and released by EVALSHA (EVAL where the server does not
// know the script yet); the commands of scripts count too. Another call replaces the first.
func (s *Server) Refuse(message string, commands ...string) {
	s.t.Helper()
	if message == "" {
		s.t.Errorf("rlocktest: Refuse: the error is empty")
	}
	s.redis.Refuse(func(command string, _ ...string) string {
		if len(commands) == 0 || slices.ContainsFunc(commands, func(c string) bool { return strings.EqualFold(c, command) }) {
			return message
		}
		return ""
	})
}

// Cut breaks the connections of the clients, and refuses others until [Server.Heal]. Commands and
// answers on their way are lost: a command may have been executed without its client knowing. To
// break connections once, call Heal at once.
//
// Cut, Silence, Heal and Kill are for the clients that are given, or for all clients of the server
// if none is given.
func (s *Server) Cut(clients ...*rlock.Client) {
	s.t.Helper()
	for _, m := range s.living("Cut", clients) {
		m.network.Refuse()
	}
}

// Silence lets nothing more through between the clients and the server, in both directions, until
// [Server.Heal]. No connection ends, so that a client notices by its timeouts only: a call that
// waits for an answer returns an error after a minute here, since the kit's clients ping an idle
// connection every 30 s, and after some four seconds in production. Heal delivers all that was sent
// meanwhile, as TCP does.
func (s *Server) Silence(clients ...*rlock.Client) {
	s.t.Helper()
	for _, m := range s.living("Silence", clients) {
		m.network.Rule(network.Silence)
	}
}

// Heal ends Cut and Silence. Without a client it ends them for all clients, and [Server.Refuse] as
// well. A client that was killed stays dead. A release that was lost meanwhile is sent again within
// a second: before an assertion that a lock is free, let that time pass.
func (s *Server) Heal(clients ...*rlock.Client) {
	s.t.Helper()
	if len(clients) == 0 {
		s.redis.Refuse(nil)
	}
	for _, m := range s.living("Heal", clients) {
		m.network.Heal()
	}
}

// Kill ends clients without a word: [Server.Silence] for ever. Their locks end with their leases.
// The code of the test that held such a lock goes on, as it cannot be killed, until it sees that
// its context has ended, which is shortly before the lease ends on the server. In a bubble a lease
// takes no time to pass; outside of one give the client a short Config.Lease, or call
// [Server.Lose].
func (s *Server) Kill(clients ...*rlock.Client) {
	s.t.Helper()
	for _, m := range s.living("Kill", clients) {
		s.mu.Lock()
		m.dead = true
		s.mu.Unlock()
		m.network.Rule(network.Silence)
	}
}

// living returns the clients that were not killed, of the given clients, or of all if none is
// given.
func (s *Server) living(method string, clients []*rlock.Client) (members []*member) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range clients {
		if !slices.ContainsFunc(s.clients, func(m *member) bool { return m.Client == c }) {
			s.t.Errorf("rlocktest: %s: a client was not made by Client of this server", method)
		}
	}
	for _, m := range s.clients {
		if !m.dead && (len(clients) == 0 || slices.Contains(clients, m.Client)) {
			members = append(members, m)
		}
	}
	return members
}
