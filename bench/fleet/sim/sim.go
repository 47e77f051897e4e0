package sim

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/go-rlock/rlock/bench/fleet/server"
	"github.com/go-rlock/rlock/internal/core"
)

// A Sim is one simulation.
type Sim struct {
	*Fleet
	now    core.Time
	warm   core.Time // from when it measures
	end    core.Time // and until when
	agenda agenda
	rng    *rand.Rand
	core   core.Config
	server server.Config
	last   uint64 // number of a tenure
	names  int

	clients []client
	callers []caller
	shards  []shard
	locks   map[pair]*lock // that clients know of
	subs    map[pair]*sub
	held    []int8 // of each name: how many callers believe to hold it

	listensTo uint32 // the name whose command is executed
	effects   server.Effects
	took      []core.Effect
	nudges    []nudge
	spare     spares

	result Result
}

// Run simulates the fleet.
func (f *Fleet) Run() *Result {
	s := &Sim{
		Fleet: f, warm: core.Time(f.Warm), end: core.Time(f.Warm + f.For), rng: rand.New(rand.NewPCG(f.Seed, 1)), core: f.config(),
		agenda: newAgenda(), names: max(f.Names, 1), locks: make(map[pair]*lock), subs: make(map[pair]*sub),
		clients: make([]client, f.Clients), callers: make([]caller, f.Clients*max(f.Callers, 1)), shards: make([]shard, max(f.Shards, 1)),
		result: Result{Fleet: f, Wait: hdrhistogram.New(1, int64(time.Hour/time.Microsecond), 3)},
	}
	s.server = server.Config{Claim: s.core.Claim, Silence: s.core.QueueTime, Listens: s.listens}
	s.held = make([]int8, s.names)
	for i := range s.shards {
		s.shards[i] = shard{locks: make(map[uint32]*server.Lock), keys: make(map[uint32]key), stops: core.Never}
	}
	for i := range s.clients {
		s.clients[i].id = uint32(i)
	}
	for i := range s.callers {
		w := &s.callers[i]
		w.client, w.token = &s.clients[i%len(s.clients)], uint64(i)+1
		if s.Pause > 0 && s.Begin == 0 {
			s.pause(w) // as at any time
		} else {
			s.at(w, core.Time(s.rng.Int64N(int64(cmp.Or(s.Begin, time.Millisecond)))))
		}
	}
	s.planFailover()
	s.stallNext()
	s.loop()
	return s.measured()
}

func (s *Sim) number() uint64 {
	s.last++
	return s.last
}

// loop has events happen until the end.
func (s *Sim) loop() {
	for {
		e, ok := s.agenda.take()
		if !ok || e.at >= s.end {
			break
		}
		s.now = e.at
		if c := s.clientOf(&e); c != nil && c.stalled > s.now {
			e.at = c.stalled
			s.agenda.add(e)
			continue
		}
		s.result.Events++
		s.happens(&e)
	}
	s.now = s.end
}

func (s *Sim) happens(e *event) {
	switch e.kind {
	case arrives:
		s.arrive(e.of.(*packet))
	case answered:
		if p := e.of.(*packet); p.lock == nil {
			s.polledAnswer(p)
		} else {
			s.answer(p)
		}
	case heard:
		s.hear(e.of.(*news))
	case subscribes:
		s.subscribed(e.of.(*sub))
	case subscribed:
		s.confirmed(e.of.(*sub), e.gen)
	case unused:
		s.unused(e.of.(*sub))
	case due:
		if w := e.of.(*caller); w.gen == e.gen {
			s.goesOn(w)
		}
	case keeps:
		if t := e.of.(*core.Tenure); workOf(t).gen == e.gen && t.Lock() != nil {
			l, _ := t.Lock().Tag.(*lock)
			s.keep(t)
			if l != nil {
				s.carryOut(l)
			}
		}
	case stalls:
		s.stall()
	case fails:
		s.fail()
	case lags:
		s.lag()
	case recovers:
		s.recover()
	}
}

// measured returns the figures.
func (s *Sim) measured() *Result {
	r := &s.result
	for i := range s.callers {
		if w := &s.callers[i]; w.state == waits {
			_ = r.Wait.RecordValue(int64(time.Duration(s.now - w.began).Microseconds()))
			r.Waiting++
		}
	}
	r.Least = s.clients[0].sections
	for i := range s.clients {
		r.Least, r.Most = min(r.Least, s.clients[i].sections), max(r.Most, s.clients[i].sections)
	}
	for i := range s.shards {
		r.Shards = append(r.Shards, s.shards[i].Shard)
		r.Commands += s.shards[i].Commands
	}
	return r
}
