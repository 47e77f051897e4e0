//go:build unix

package cli_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"github.com/go-rlock/rlock/rlock/inspect"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/cmd/rlock/internal/view"
	"github.com/go-rlock/rlock/internal/network"
)

// rounds makes the test of the fleet longer: a round has three faults, and takes some
// seconds.
var rounds = flag.Int("rounds", 1, "how often a fleet is hit by faults and compared with what the command shows")

// A ship is one process of the fleet.
type ship struct {
	*player
	wire *network.Network // between the process and the server
}

// launch starts a process of the fleet.
func (s *site) launch() *ship {
	s.t.Helper()
	wire, err := network.Listen(s.addr)
	require.NoError(s.t, err)
	s.t.Cleanup(wire.Close)
	cmd := exec.CommandContext(s.ctx, os.Args[0])
	cmd.Env = append(os.Environ(), asWorker+"=1", "RLOCK_ADDR="+wire.Addr())
	p := &ship{s.play(cmd), wire}
	p.await("ready", "")
	return p
}

// await reads lines until one reports the event.
func (p *ship) await(event, lock string) account {
	p.t.Helper()
	for {
		var r report
		require.NoError(p.t, json.Unmarshal([]byte(p.line()), &r))
		if r.Event == event && r.Lock == lock {
			return r.Account
		}
	}
}

// take makes the process wait for a lock.
func (p *ship) take(name string) { p.write("take " + name + "\n") }

func (p *ship) pid() int { return p.cmd.Process.Pid }

// shown returns the command's output for a lock.
func (s *site) shown(name string) view.Lock {
	s.t.Helper()
	code, stdout, stderr := s.run("", "show", "--json", name)
	require.Zero(s.t, code, stderr)
	return locks(s.t, stdout)[0]
}

// totals returns the sums over all locks that one look of top shows.
func (s *site) totals() (held, waiting int) {
	s.t.Helper()
	code, stdout, stderr := s.run("", "top", "--json", "--count", "1")
	require.Zero(s.t, code, stderr)
	var look struct{ Held, Waiting int }
	require.NoError(s.t, json.Unmarshal([]byte(stdout), &look))
	return look.Held, look.Waiting
}

// awaitQueue returns when n clients wait for the lock.
func (s *site) awaitQueue(name string, length int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		i, err := inspect.Of(s.client).Lock(s.ctx, name)
		return err == nil && i.Waiting == length
	}, hang, time.Millisecond)
}

// Twenty processes lock and unlock; one of them is killed, one stopped and one cut off from
// the server. Then they pause, and wait for each other. At both moments the output of the
// command and the figures of the clients are compared with the reports of the processes.
func TestTheCommandShowsWhatAFleetReports(t *testing.T) {
	t.Parallel()
	needsServer(t) // the embedded server cannot distinguish processes
	s := newSite(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(*rounds)*hang)
	t.Cleanup(cancel)
	s.ctx = ctx
	fleet := make([]*ship, 20)
	for i := range fleet {
		fleet[i] = s.launch()
	}
	for round := range *rounds {
		killed, stopped, cut := fleet[0], fleet[1], fleet[2]
		s.trouble(fleet, killed, stopped, cut)
		fleet = fleet[1:]
		s.comparePaused(fleet)
		s.compareQueue(fleet, fmt.Sprint("jam:", round))
		fleet = append(fleet[1:], s.launch(), s.launch()) // the other processes, in another order
	}
	for _, p := range fleet {
		require.NoError(t, p.stdin.Close())
		assert.Zero(t, p.wait())
	}
	_, stdout, _ := s.run("", "ls", "--json")
	assert.Empty(t, stdout, "a process that ends leaves nothing behind")
}

// trouble lets the fleet work while three of its processes fail, each with a lock that the
// site is granted when the lease ends.
func (s *site) trouble(fleet []*ship, killed, stopped, cut *ship) {
	t := s.t
	t.Helper()
	for _, p := range fleet {
		p.write("work\n")
	}
	victims := map[string]*ship{"own:killed": killed, "own:stopped": stopped, "own:cut": cut}
	for name, p := range victims {
		p.take(name)
		p.await("took", name)
		shown := s.shown(name)
		require.Len(t, shown.Holders, 1)
		assert.Equal(t, p.pid(), shown.Holders[0].PID)
	}
	killed.signal(syscall.SIGKILL)
	stopped.signal(syscall.SIGSTOP)
	cut.wire.Refuse()
	for name := range victims {
		hold, err := s.client.NewFairLock(name).Acquire(s.ctx)
		require.NoError(t, err)
		shown := s.shown(name)
		require.Len(t, shown.Holders, 1)
		assert.Equal(t, os.Getpid(), shown.Holders[0].PID)
		require.NoError(t, hold.Release(s.ctx))
	}
	cut.await("lost", "own:cut") // the process knows by its own clock
	cut.wire.Heal()
	stopped.signal(syscall.SIGCONT)
	stopped.await("lost", "own:stopped")
	killed.wait()
}

// comparePaused pauses the fleet, and compares the figures of each process.
func (s *site) comparePaused(fleet []*ship) {
	t := s.t
	t.Helper()
	for _, p := range fleet {
		p.write("pause\n")
	}
	var all figures
	for i, p := range fleet {
		says := p.await("figures", "")
		did, stats := says.Did, says.Stats
		assert.Equal(t, did.Acquired, stats.Acquired, "process %d", i)
		assert.Equal(t, did.Denied, stats.Denied, "process %d", i)
		assert.Equal(t, did.Failed, stats.Failed+stats.Canceled, "process %d", i)
		assert.Equal(t, did.Lost, stats.Lost, "process %d", i)
		assert.Zero(t, stats.Held, "process %d", i)
		assert.Zero(t, stats.Waiting, "process %d", i)
		assert.Equal(t, did.Acquired, says.Seen.Acquired, "process %d", i)
		assert.Equal(t, did.Denied+did.Failed, says.Seen.GaveUp, "process %d", i)
		assert.Equal(t, did.Acquired-did.Lost, says.Seen.Released, "process %d", i)
		all.Acquired, all.Denied, all.Failed, all.Lost = all.Acquired+did.Acquired, all.Denied+did.Denied, all.Failed+did.Failed, all.Lost+did.Lost
	}
	t.Logf("%+v", all)
	assert.GreaterOrEqual(t, all.Lost, int64(2), "the losses of the stopped and the cut process")
	// The leases of the killed process end, and so do those of lost releases.
	require.Eventually(t, func() bool {
		_, stdout, _ := s.run("", "ls", "--json")
		return stdout == ""
	}, hang, time.Millisecond)
	held, waiting := s.totals()
	assert.Zero(t, held)
	assert.Zero(t, waiting)
}

// compareQueue makes the fleet wait for one lock, in the order of the fleet, and kills the
// holder, the first.
func (s *site) compareQueue(fleet []*ship, name string) {
	t := s.t
	t.Helper()
	for i, p := range fleet {
		p.take(name)
		if i == 0 {
			p.await("took", name)
		}
		s.awaitQueue(name, i)
	}
	compare := func(line []*ship) {
		t.Helper()
		shown := s.shown(name)
		require.Len(t, shown.Holders, 1)
		assert.Equal(t, line[0].pid(), shown.Holders[0].PID)
		var queue, pids []int
		for _, waiter := range shown.Queue {
			queue = append(queue, waiter.PID)
		}
		for _, p := range line[1:] {
			pids = append(pids, p.pid())
		}
		assert.Equal(t, pids, queue, "the order of the queue")
		assert.Equal(t, len(pids), shown.Waiting)
		held, waiting := s.totals()
		_, plain, _ := s.run("", "top", "--plain", "--count", "1")
		assert.Contains(t, strings.SplitN(plain, "\n", 2)[0], fmt.Sprintf("1 held by 1 process, %d waiting", len(pids)))
		for _, p := range line {
			p.write("figures\n")
			stats := p.await("figures", "").Stats
			held -= int(stats.Held)
			waiting -= int(stats.Waiting)
		}
		assert.Zero(t, held, "top counts as many locks as the clients")
		assert.Zero(t, waiting, "top counts as many waiters as the clients")
	}
	compare(fleet)
	fleet[0].signal(syscall.SIGKILL)
	fleet[0].wait()
	fleet[1].await("took", name)
	compare(fleet[1:])
	for _, p := range fleet[1:] {
		p.write("give\n")
	}
	for _, p := range fleet[1:] {
		p.await("gave", "")
	}
}
