package rlockotel_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/rlockotel"
)

// A lab has a client with an observer in virtual time, and the recorded telemetry.
type lab struct {
	*rlock.Client
	server   *redistest.Server
	observer *rlock.Observer
	ctx      context.Context
	reader   *sdkmetric.ManualReader
	spans    *tracetest.SpanRecorder
	tracer   trace.Tracer
}

func inLab(t *testing.T, options []rlockotel.Option, run func(t *testing.T, l *lab)) {
	t.Helper()
	redistest.Bubble(t, func(t *testing.T, s *redistest.Server) {
		l := &lab{server: s, ctx: t.Context(), reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
		meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(l.reader))
		tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(l.spans))
		l.tracer = tracers.Tracer("test")
		var err error
		l.observer, err = rlockotel.NewObserver(append(options, rlockotel.WithMeterProvider(meters), rlockotel.WithTracerProvider(tracers))...)
		require.NoError(t, err)
		l.Client = l.client(t)
		run(t, l)
		require.NoError(t, l.Close())
	})
}

func (l *lab) client(t *testing.T) *rlock.Client {
	t.Helper()
	c, err := rlock.New(rlock.Config{Redis: l.server.Options(), Observer: l.observer, Lease: 3 * time.Second, Advanced: rlock.Advanced{TrackedKeys: -1}})
	require.NoError(t, err)
	return c
}

// caller returns a context in the name of a new owner.
func (l *lab) caller() context.Context { return rlock.WithOwner(l.ctx, rlock.NewOwner()) }

// A point is a measurement: the value of a counter, or the count and the sum of a histogram.
type point struct {
	value float64
	count uint64
}

// metrics returns the current measurements, by the metric's name and its attributes.
func (l *lab) metrics(t *testing.T) map[string]map[string]point {
	t.Helper()
	synctest.Wait()
	var all metricdata.ResourceMetrics
	require.NoError(t, l.reader.Collect(context.Background(), &all))
	found := make(map[string]map[string]point)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			points := make(map[string]point)
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					points[text(p.Attributes)] = point{value: float64(p.Value)}
				}
			case metricdata.Sum[float64]:
				for _, p := range data.DataPoints {
					points[text(p.Attributes)] = point{value: p.Value}
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					points[text(p.Attributes)] = point{p.Sum, p.Count}
				}
			default:
				t.Fatalf("%s is a %T", m.Name, data)
			}
			found[m.Name] = points
		}
	}
	return found
}

// text is "key=value,key=value" in the order of the keys.
func text(set attribute.Set) string { return set.Encoded(attribute.DefaultEncoder()) }

func start(call func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- call() }()
	return result
}

func TestWaitsAndHoldsAreMeasured(t *testing.T) {
	inLab(t, nil, func(t *testing.T, l *lab) {
		lock, me, them := l.NewLock("orders:42"), l.caller(), l.caller()
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Lock(me))
		theirs := start(func() error { return lock.Lock(them) })
		synctest.Wait()
		time.Sleep(2 * time.Second)
		m := l.metrics(t)
		assert.Equal(t, map[string]point{"lock.kind=plain": {value: 1}}, m["lock.client.waiters"])
		assert.Equal(t, map[string]point{"": {value: 1}}, m["lock.client.held"])
		assert.Empty(t, m["lock.client.hold.duration"])

		require.NoError(t, lock.Unlock(me))
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, <-theirs)
		time.Sleep(time.Second)
		require.NoError(t, lock.Unlock(them))
		m = l.metrics(t)
		assert.Equal(t, map[string]point{"lock.kind=plain": {value: 0}}, m["lock.client.waiters"])
		assert.Equal(t, map[string]point{"": {value: 0}}, m["lock.client.held"])
		assert.Equal(t, map[string]point{
			"lock.kind=plain,lock.result=acquired,lock.way=redis":   {0, 1},
			"lock.kind=plain,lock.result=acquired,lock.way=handoff": {2, 1},
		}, m["lock.client.acquire.duration"])
		assert.Equal(t, map[string]point{"lock.kind=plain,lock.release=released": {3, 2}}, m["lock.client.hold.duration"])
		assert.Equal(t, map[string]point{
			"lock.way=nesting": {value: 1}, "lock.way=joining": {}, "lock.way=handoff": {value: 1}, "lock.way=redis": {value: 1}, "lock.way=queue": {}, "lock.way=pass": {},
		}, m["lock.client.acquired"])
		assert.Equal(t, map[string]point{"": {value: 2}}, m["lock.client.wait.time"])
		assert.Positive(t, m["lock.client.commands"][""].value)
	})
}

func TestCallsThatGiveUpAreMeasuredByTheirResult(t *testing.T) {
	inLab(t, nil, func(t *testing.T, l *lab) {
		lock, me := l.NewFairLock("orders:42"), l.caller()
		require.NoError(t, lock.Lock(l.caller()))
		_, err := lock.TryLock(me)
		require.NoError(t, err)
		soon, cancel := context.WithTimeout(me, time.Second)
		defer cancel()
		require.Error(t, lock.Lock(soon))
		require.Error(t, lock.LockFor(me, time.Nanosecond))
		left, leave := context.WithCancel(me)
		leaving := start(func() error { return lock.Lock(left) })
		synctest.Wait()
		leave()
		require.Error(t, <-leaving)
		m := l.metrics(t)
		assert.Equal(t, map[string]point{
			"lock.kind=fair,lock.result=acquired,lock.way=redis":          {0, 1},
			"lock.kind=fair,lock.result=busy":                             {0, 1},
			"lock.kind=fair,lock.result=timeout":                          {1, 1},
			"lock.kind=fair,lock.result=canceled":                         {0, 1},
			"error.type=ErrInvalidLease,lock.kind=fair,lock.result=error": {0, 1},
		}, m["lock.client.acquire.duration"])
		assert.Equal(t, map[string]point{"lock.kind=fair": {value: 0}}, m["lock.client.waiters"])
		assert.Equal(t, map[string]point{"": {value: 1}}, m["lock.client.denied"])
	})
}

func TestLossesAndRenewalsAreMeasured(t *testing.T) {
	inLab(t, nil, func(t *testing.T, l *lab) {
		require.NoError(t, l.NewLock("orders:42").Lock(l.caller()))
		time.Sleep(2500 * time.Millisecond)
		m := l.metrics(t)
		assert.Equal(t, map[string]point{"lock.result=ok": {value: 2}, "lock.result=failed": {}}, m["lock.client.renewals"])
		assert.Equal(t, uint64(2), m["lock.client.renew.duration"]["lock.result=ok"].count)
		assert.Equal(t, uint64(2), m["lock.client.lease.margin"][""].count)
		assert.InDelta(t, 2*2./3, m["lock.client.lease.margin"][""].value, 0.1)

		other := l.server.Client(t)
		require.NoError(t, other.Do(l.ctx, other.B().Del().Key("orders:42").Build()).Error())
		time.Sleep(time.Second)
		m = l.metrics(t)
		assert.Equal(t, map[string]point{
			"lock.reason=key_gone": {value: 1}, "lock.reason=unrenewed": {}, "lock.reason=lease_ended": {}, "lock.reason=forced": {}, "lock.reason=held_too_long": {},
		}, m["lock.client.lost"])
		assert.Equal(t, uint64(1), m["lock.client.hold.duration"]["lock.kind=plain,lock.release=lost"].count)
		assert.Equal(t, uint64(1), m["lock.client.renew.duration"]["lock.result=failed"].count)
		assert.Equal(t, point{value: 0}, m["lock.client.held"][""])
		other.Close()
	})
}

func TestReleasesAreMeasuredByTheWayTheyEnd(t *testing.T) {
	inLab(t, nil, func(t *testing.T, l *lab) {
		require.NoError(t, l.NewLock("released").Do(l.ctx, func(context.Context) error { return nil }))
		require.NoError(t, l.NewLock("closed").Lock(l.caller()))
		require.NoError(t, l.Close())
		assert.Equal(t, map[string]point{
			"lock.kind=plain,lock.release=released": {0, 1},
			"lock.kind=plain,lock.release=closed":   {0, 1},
		}, l.metrics(t)["lock.client.hold.duration"])
	})
}

func TestTheFiguresOfSeveralClientsAddUpAndStayWhenOneIsClosed(t *testing.T) {
	inLab(t, nil, func(t *testing.T, l *lab) {
		second := l.client(t)
		require.NoError(t, l.NewLock("a").Lock(l.caller()))
		require.NoError(t, second.NewLock("b").Lock(l.caller()))
		m := l.metrics(t)
		assert.Equal(t, point{value: 2}, m["lock.client.held"][""])
		require.NoError(t, second.Close())
		m = l.metrics(t)
		assert.Equal(t, point{value: 1}, m["lock.client.held"][""])
		assert.Equal(t, point{value: 2}, m["lock.client.acquired"]["lock.way=redis"])
	})
}

// Both figures of an acquire say in the same way how the lock was acquired.
func TestALockThatIsPassedOnIsCountedAsSuch(t *testing.T) {
	inLab(t, nil, func(t *testing.T, l *lab) {
		hold, err := l.NewLock("a").Acquire(l.caller())
		require.NoError(t, err)
		pass, err := hold.Pass(t.Context(), time.Minute)
		require.NoError(t, err)
		again, err := l.Resume(t.Context(), pass)
		require.NoError(t, err)
		require.NoError(t, again.Release(t.Context()))
		m := l.metrics(t)
		assert.Equal(t, point{value: 1}, m["lock.client.acquired"]["lock.way=pass"])
		assert.Equal(t, point{value: 1}, m["lock.client.acquired"]["lock.way=redis"])
		assert.Equal(t, uint64(1), m["lock.client.acquire.duration"]["lock.kind=plain,lock.result=acquired,lock.way=pass"].count)
		assert.Equal(t, uint64(1), m["lock.client.hold.duration"]["lock.kind=plain,lock.release=passed"].count)
	})
}

func TestTheNameOfALockIsNoAttributeUnlessItIsMapped(t *testing.T) {
	class := func(name string) string {
		if name == "none" {
			return ""
		}
		return name[:1]
	}
	options := []rlockotel.Option{rlockotel.WithLockClass(class), rlockotel.WithAttributes(attribute.String("redis", "main")), rlockotel.WithHoldSpans()}
	inLab(t, options, func(t *testing.T, l *lab) {
		for _, name := range []string{"a:1", "a:2", "b:1", "none"} {
			lock := l.NewLock(name)
			me, them := l.caller(), l.caller()
			require.NoError(t, lock.Lock(me))
			ok, err := lock.TryLockFor(them, time.Second, 0)
			require.NoError(t, err)
			require.False(t, ok)
			require.NoError(t, lock.Unlock(me))
		}
		m := l.metrics(t)
		assert.Equal(t, map[string]point{
			"lock.class=a,lock.kind=plain,redis=main": {value: 0}, "lock.class=b,lock.kind=plain,redis=main": {value: 0}, "lock.kind=plain,redis=main": {value: 0},
		}, m["lock.client.waiters"])
		assert.Equal(t, uint64(2), m["lock.client.hold.duration"]["lock.class=a,lock.kind=plain,lock.release=released,redis=main"].count)
		assert.Contains(t, m["lock.client.held"], "redis=main")
		spans := l.spans.Ended()
		require.Len(t, spans, 8)
		assert.Equal(t, "lock.class=a,lock.kind=plain,lock.result=busy,redis=main", text(attribute.NewSet(spans[0].Attributes()...)))
	})
}

func TestACallThatWaitsHasASpanInThatOfItsCaller(t *testing.T) {
	inLab(t, nil, func(t *testing.T, l *lab) {
		lock, me := l.NewLock("orders:42"), l.caller()
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Unlock(me))
		assert.Empty(t, l.spans.Ended(), "no call waited")

		require.NoError(t, lock.Lock(me))
		began := time.Now()
		ctx, parent := l.tracer.Start(l.caller(), "request")
		theirs := start(func() error { return lock.Lock(ctx) })
		synctest.Wait()
		time.Sleep(2 * time.Second)
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, <-theirs)
		require.NoError(t, lock.Unlock(ctx))
		parent.End()
		spans := l.spans.Ended()
		require.Len(t, spans, 2)
		wait := spans[0]
		assert.Equal(t, "lock.acquire", wait.Name())
		assert.Equal(t, parent.SpanContext().SpanID(), wait.Parent().SpanID())
		assert.Equal(t, began, wait.StartTime())
		assert.Equal(t, began.Add(2*time.Second), wait.EndTime())
		assert.Equal(t, "lock.kind=plain,lock.result=acquired,lock.way=handoff", text(attribute.NewSet(wait.Attributes()...)))
		assert.Equal(t, codes.Unset, wait.Status().Code)

		require.NoError(t, lock.Lock(me))
		failing := start(func() error { return lock.Lock(ctx) })
		synctest.Wait()
		require.NoError(t, l.Close())
		require.ErrorIs(t, <-failing, rlock.ErrClosed)
		failed := l.spans.Ended()[2]
		assert.Equal(t, codes.Error, failed.Status().Code)
		assert.Contains(t, text(attribute.NewSet(failed.Attributes()...)), "error.type=ErrClosed")
	})
}

func TestAHoldHasASpanIfThatIsAskedFor(t *testing.T) {
	inLab(t, []rlockotel.Option{rlockotel.WithHoldSpans()}, func(t *testing.T, l *lab) {
		ctx, parent := l.tracer.Start(l.ctx, "request")
		began := time.Now()
		require.NoError(t, l.NewLock("orders:42").Do(ctx, func(context.Context) error {
			time.Sleep(time.Second)
			return nil
		}))
		spans := l.spans.Ended()
		require.Len(t, spans, 1)
		assert.Equal(t, "lock.hold", spans[0].Name())
		assert.Equal(t, parent.SpanContext().SpanID(), spans[0].Parent().SpanID())
		assert.Equal(t, []time.Time{began, began.Add(time.Second)}, []time.Time{spans[0].StartTime(), spans[0].EndTime()})
		parent.End()
	})
}

func TestALossIsAnEventOfTheSpanThatTheLockWasAcquiredIn(t *testing.T) {
	inLab(t, []rlockotel.Option{rlockotel.WithHoldSpans()}, func(t *testing.T, l *lab) {
		ctx, parent := l.tracer.Start(l.ctx, "request")
		h, err := l.NewLock("orders:42").Acquire(ctx)
		require.NoError(t, err)
		_, err = l.NewLock("orders:42").ForceUnlock(l.ctx)
		require.NoError(t, err)
		<-h.Context().Done()
		synctest.Wait()
		parent.End()
		spans := l.spans.Ended()
		require.Len(t, spans, 2)
		assert.Equal(t, codes.Error, spans[0].Status().Code)
		require.Len(t, spans[1].Events(), 1)
		assert.Equal(t, "lock.lost", spans[1].Events()[0].Name)
		assert.Equal(t, []attribute.KeyValue{attribute.String("lock.reason", "forced")}, spans[1].Events()[0].Attributes)
	})
}

func TestTheHooksAllocateNothingForKnownAttributes(t *testing.T) {
	o, err := rlockotel.NewObserver(rlockotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))))
	require.NoError(t, err)
	ctx, info := context.Background(), rlock.LockInfo{Name: "orders:42", Kind: rlock.KindPlain}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		o.Acquired(ctx, rlock.AcquiredInfo{LockInfo: info, AcquiredBy: rlock.ByRedis, Waited: time.Millisecond})
		o.Released(ctx, rlock.ReleasedInfo{LockInfo: info, AcquiredBy: rlock.ByRedis, Held: time.Millisecond})
	}))
}
