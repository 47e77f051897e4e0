package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/internal/torture/stage"
	"github.com/go-rlock/rlock/rlock"
)

const (
	// hungAfter is how long a call that is not cancelled may go on with nothing broken any
	// more: all leases have ended by then, and a fallback poll or two.
	hungAfter = 2 * time.Minute
	// linger is how long goroutines of a closed rueidis client may take to end: it keeps the
	// connections of a former topology for five seconds, and a machine may be busy.
	linger = 40 * time.Second
)

// A worker is one life.
type worker struct {
	Job
	name     string // of the process in the history
	recorder *history.Recorder
	gate     *gate
	before   goleak.Option // the goroutines that are not the worker's

	ready   chan struct{}    // closed when there is a client of each server
	client  *rlock.Client    // the first
	clients []*rlock.Client  // one for each server that knows of no other
	shared  []rueidis.Client // those that the clients share, if they do
	first   int              // goroutines after the first lock

	ctx    context.Context // ends with the worker
	cancel context.CancelFunc
	crew   sync.WaitGroup
	hands  []*hand
	held   gauge // levels
}

// begin starts a worker, which connects in the background: its server may be down.
func begin(job Job) (*worker, error) {
	name := job.Name()
	recorder, err := history.NewRecorder(io.Discard, name), error(nil)
	if job.History != "" {
		recorder, err = history.Create(job.History, name)
	}
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	w := &worker{Job: job, name: name, recorder: recorder, gate: newGate(job.Goroutines + job.Wide), before: goleak.IgnoreCurrent(), ready: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	crowded, wide := job.crowded(), job.wide()
	for i := range job.Goroutines + job.Wide {
		share := crowded
		if i >= job.Goroutines {
			share = wide
		}
		seed := uint64(job.Worker)<<32 | uint64(job.Life)<<16 | uint64(i)
		w.hands = append(w.hands, &hand{worker: w, number: i, share: share, random: rand.New(rand.NewPCG(job.Seed, seed))})
	}
	w.crew.Go(func() { w.recorder.Pulse(w.ctx) })
	w.crew.Go(w.connect)
	return w, nil
}

// connect retries until it has a client, and then starts the hands.
func (w *worker) connect() {
	servers := w.Address.Servers()
	for w.ctx.Err() == nil {
		client, err := w.connectTo(servers[len(w.clients)])
		if err != nil {
			select {
			case <-time.After(50 * time.Millisecond):
			case <-w.ctx.Done():
			}
			continue
		}
		if w.clients = append(w.clients, client); len(w.clients) < len(servers) {
			continue
		}
		w.client = w.clients[0]
		own := w.client.NewLock("torture:own:" + w.name)
		if own.Lock(w.ctx) == nil {
			_ = own.Unlock(w.ctx) // errors show elsewhere
		}
		w.first = runtime.NumGoroutine() + len(w.hands)
		for _, h := range w.hands {
			w.crew.Go(h.work)
		}
		close(w.ready)
		return
	}
}

// Config returns the config of a worker's client of one server.
func Config(a stage.Address, lease time.Duration) rlock.Config {
	return rlock.Config{
		Lease:  lease,
		Logger: slog.New(slog.DiscardHandler),
		Redis: rueidis.ClientOption{
			InitAddress:       a.Init,
			Username:          stage.User,
			Password:          stage.Password,
			Sentinel:          rueidis.SentinelOption{MasterSet: a.MasterSet},
			ForceSingleClient: a.Topology == stage.Standalone || a.Topology == stage.AOF,
			DialCtxFn:         a.Dial,
		},
	}
}

// settle shuts the gate, and waits until all hands rest.
func (w *worker) settle() (s Settled) {
	select {
	case <-w.ready:
	case <-time.After(hungAfter):
		return Settled{Hung: []string{"New by " + w.name}}
	}
	all := w.gate.close(hungAfter)
	for _, h := range w.hands {
		h.tell(&s, !all)
	}
	s.Most = w.held.most.Load()
	return s
}

func (w *worker) idle() Idle {
	return Idle{Goroutines: runtime.NumGoroutine(), AtFirst: w.first}
}

// end ends the worker, and looks for leftovers.
func (w *worker) end() (e Ended) {
	w.cancel()
	w.gate.end()
	w.crew.Wait()
	if len(w.clients) > 0 {
		closing := w.recorder.Begin(history.Op{Method: history.Close})
		var err error
		for _, client := range w.clients {
			err = errors.Join(err, client.Close())
		}
		for _, shared := range w.shared {
			shared.Close()
		}
		closing.End(history.Result{Outcome: gaveBack(err), Error: text(err)})
		e.Closed = text(err)
	}
	var left error
	for deadline := time.Now().Add(linger); time.Now().Before(deadline); {
		if left = goleak.Find(w.before); left == nil { // Find waits a little itself
			break
		}
	}
	e.Left = text(left)
	if e.Left != "" {
		w.recorder.Leftover("goroutines of " + w.name)
	}
	if err := w.recorder.Close(); err != nil {
		e.Closed = text(err)
	}
	return e
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
