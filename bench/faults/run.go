package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/torture/stage"
)

// A run is one form under one sort of fault.
type run struct {
	form   form
	sort   sort
	lease  time.Duration
	time   time.Duration // of the faults
	random *rand.Rand

	stage    *stage.Stage
	nets     []*network.Network // of each worker; none with several servers
	data     rueidis.Client     // at the resource
	happened int                // faults
}

func (r *run) String() string { return r.sort.name + "/" + r.form.library + "/" + r.form.text }

// A result is what the resource has noted.
type result struct {
	Fault, Library, Form string
	Happened             int     // faults
	Writes               int64   // that the resource has executed
	Lost                 int64   // of them: others have overwritten them, since the value is less
	Before, Under        float64 // writes a second, before the faults and under them
	Pause                float64 // the longest time without a write under the faults, in seconds
	Still                int     // workers that do not write in the time after the faults
}

const (
	warming = 30 * time.Second       // at most, until all workers write: a JVM starts slowly
	calm    = 4 * time.Second        // before the faults
	between = 500 * time.Millisecond // two faults, about
	grace   = 8 * time.Second        // and a lease: in which each worker writes again
)

func (r *run) play(ctx context.Context) (got result, err error) {
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	if r.stage, err = stage.Open(r.sort.topology, dir); err != nil {
		return result{}, err
	}
	defer r.stage.Close()
	locks := r.stage.Addresses()[0]
	at := locks
	if r.form.text != guarded { // a resource of its own, which no fault meets
		addr, stop, err := redistest.Redis()
		if err != nil {
			return result{}, err
		}
		defer stop()
		at = stage.Address{Init: []string{addr}, Single: true}
	}
	if r.data, err = rueidis.NewClient(option(at)); err != nil {
		return result{}, err
	}
	defer r.data.Close()
	for i := range r.sort.workers {
		way := locks
		if r.sort.topology == stage.Standalone {
			net, err := network.Listen(locks.Init[0])
			if err != nil {
				return result{}, err
			}
			defer net.Close()
			r.nets, way.Init = append(r.nets, net), []string{net.Addr()}
		}
		if err := r.stage.Hire(r.form.command, 0, func(int) any {
			return job{r.form.library, r.form.text, strconv.Itoa(i), name, way, at, r.lease, think, r.sort.pause, resource, read, write}
		}); err != nil {
			return result{}, err
		}
	}
	return r.measure(ctx)
}

// measure breaks the run for its time, and compares what the resource has executed with its value.
func (r *run) measure(ctx context.Context) (result, error) {
	for until := time.Now().Add(warming); r.look(ctx).writers(nil) < r.sort.workers && time.Now().Before(until) && ctx.Err() == nil; {
		wait(ctx, 50*time.Millisecond)
	}
	first, began := r.look(ctx), time.Now()
	wait(ctx, calm)
	before, broke := r.look(ctx), time.Now()
	if err := r.data.Do(ctx, r.data.B().Hdel().Key(resource[0]).Field("pause").Build()).Error(); err != nil {
		return result{}, err
	}
	for time.Since(broke) < r.time && ctx.Err() == nil {
		if err := r.sort.strike(ctx, r); err != nil {
			return result{}, fmt.Errorf("faults: %v: %w", r, err)
		}
		r.happened++
		wait(ctx, between/2+upTo(r.random, between))
	}
	under, healed := r.look(ctx), time.Now()
	wait(ctx, r.lease+grace)
	end := r.look(ctx)
	return result{
		Fault: r.sort.name, Library: r.form.library, Form: r.form.text, Happened: r.happened,
		Writes: end["writes"], Lost: end["writes"] - end["value"],
		Before: float64(before["writes"]-first["writes"]) / broke.Sub(began).Seconds(),
		Under:  float64(under["writes"]-before["writes"]) / healed.Sub(broke).Seconds(),
		Pause:  float64(max(under["pause"], healed.UnixMilli()-max(under["last"], broke.UnixMilli()))) / 1000,
		Still:  r.sort.workers - end.writers(under),
	}, ctx.Err()
}

// A look is what the resource says of itself.
type look map[string]int64

// look looks at the resource; a failover may be under way.
func (r *run) look(ctx context.Context) look {
	fields, err := r.data.Do(ctx, r.data.B().Hgetall().Key(resource[0]).Build()).AsIntMap()
	for ; err != nil && ctx.Err() == nil; wait(ctx, 50*time.Millisecond) {
		fields, err = r.data.Do(ctx, r.data.B().Hgetall().Key(resource[0]).Build()).AsIntMap()
	}
	return fields
}

// writers counts the workers that have written since the other look.
func (l look) writers(since look) (n int) {
	for field, writes := range l {
		if strings.HasPrefix(field, "writes of ") && writes > since[field] {
			n++
		}
	}
	return n
}

// holder returns the worker that was the last to read.
func (l look) holder() int { return int(l["holder"]) }
