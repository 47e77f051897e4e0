package lease_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/golden"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/lease"
	"github.com/stretchr/testify/require"
)

// A case is told in virtual time, with the commands of do. An outcome is a batch, with its node and the values of
// its members, or a loss, each with its time.
func TestStories(t *testing.T) {
	golden.Cases(t, false, func(t *testing.T, c *golden.Case) {
		redistest.Virtual(t, func(t *testing.T) {
			s := &stage{t: t, server: newServer(), holds: map[string][]*held{}, began: time.Now()}
			config := lease.Config{Tick: tick, Send: s.server.send}
			if first, settings, _ := strings.Cut(c.First(), " "); first == "config" {
				for setting := range strings.SplitSeq(settings, ", ") {
					name, value, _ := strings.Cut(setting, "=")
					switch name {
					case "batch":
						config.Batch, _ = strconv.Atoi(value)
					case "flights":
						config.Flights, _ = strconv.Atoi(value)
					case "tick":
						config.Tick = s.duration(value)
					case "pace":
						config.Pace = s.duration(value)
					case "maxbackoff":
						config.MaxBackoff = s.duration(value)
					default:
						require.FailNow(t, "no such setting", name)
					}
				}
			}
			s.keeper = lease.NewKeeper(config)
			defer s.keeper.Close()
			c.Tell(t, s.do)
		})
	})
}

// A stage has a keeper, its nodes, and leases by their names.
type stage struct {
	t      *testing.T
	server *server
	keeper *lease.Keeper
	holds  map[string][]*held
	began  time.Time
	told   int // events of the server
}

func (s *stage) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	require.NoError(s.t, err)
	return d
}

// do executes a command, and returns its outcome and the events since the last command:
//
//	config batch=10, flights=2      the first command of a case: fields of lease.Config
//	node 1 up 5ms                   a node, up or down, with its latency
//	hold a 1 30s x10                ten leases of 30 s on node 1, with the name a
//	set a 2                         the value of a lease, with a nudge
//	value a 2; move a 2             its value, without one; its node
//	due a; schedule a 1h; stop a    calls of the keeper
//	release a                       a lease ends, as by Unlock
//	more a                          the lease asks for a command each time
//	pass 10s; probe; len            time; calls of the keeper
func (s *stage) do(command string) (outcome []string) {
	word := append(strings.Fields(command), "", "", "", "")
	number, _ := strconv.Atoi(word[2])
	switch word[0] {
	case "", "config":
	case "node":
		node, _ := strconv.Atoi(word[1])
		s.server.set(uint32(node), word[2] == "down", s.duration(cmp.Or(word[3], "0s")))
	case "hold":
		n, _ := strconv.Atoi(cmp.Or(strings.TrimPrefix(word[4], "x"), "1"))
		for range n {
			h := newHeld(s.keeper, uint32(number), s.duration(word[3]))
			h.mu.Lock()
			h.name, h.server = word[1], s.server
			h.mu.Unlock()
			s.holds[word[1]] = append(s.holds[word[1]], h)
		}
	case "pass":
		time.Sleep(s.duration(word[1]))
	case "probe":
		s.keeper.Probe()
	case "len":
		outcome = append(outcome, strconv.Itoa(s.keeper.Len()))
	default:
		require.NotEmpty(s.t, s.holds[word[1]], command)
		for _, h := range s.holds[word[1]] {
			switch word[0] {
			case "set":
				h.set(number)
			case "due":
				s.keeper.Schedule(h, time.Now())
			case "schedule":
				s.keeper.Schedule(h, time.Now().Add(s.duration(word[2])))
			case "value", "move", "more":
				h.mu.Lock()
				switch word[0] {
				case "value":
					h.value = number
				case "move":
					h.node = uint32(number)
				case "more":
					h.sendMore = true
				}
				h.mu.Unlock()
			case "release":
				h.release()
			case "stop":
				outcome = append(outcome, fmt.Sprint(s.keeper.Stop(h)))
			default:
				require.FailNow(s.t, "no such command", command)
			}
		}
	}
	synctest.Wait()
	return append(outcome, s.events()...)
}

// events returns a line for each event since the last call, and one for equal events at one time.
func (s *stage) events() []string {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	all := slices.Clone(s.server.events[s.told:])
	s.told = len(s.server.events)
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.text, b.text)) })
	var lines []string
	for i, n := 0, 0; i < len(all); i += n {
		for n = 1; i+n < len(all) && all[i+n].at.Equal(all[i].at) && all[i+n].text == all[i].text; n++ {
		}
		line := fmt.Sprint(all[i].at.Sub(s.began), " ", all[i].text)
		if n > 1 {
			line += fmt.Sprintf(", %d times", n)
		}
		lines = append(lines, line)
	}
	return lines
}

// An event is a batch or a loss.
type event struct {
	at   time.Time
	text string
}

// batchOf names the members of a batch, with their values.
func batchOf(node uint32, batch []lease.Renewable) string {
	members := map[string]int{}
	for _, r := range batch {
		h := r.(*held)
		h.mu.Lock()
		name := h.name
		if h.value != 0 {
			name += fmt.Sprint("=", h.value)
		}
		h.mu.Unlock()
		members[name]++
	}
	text := fmt.Sprintf("node %d:", node)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if text += " " + name; members[name] > 1 {
			text += fmt.Sprint(" x", members[name])
		}
	}
	return text
}
