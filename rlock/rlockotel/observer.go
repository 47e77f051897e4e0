package rlockotel

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// scope names the meter and the tracer.
const scope = "github.com/go-rlock/rlock/rlock/rlockotel"

// An Option changes what [NewObserver] returns; nil changes nothing.
type Option func(*settings)

type settings struct {
	meters     metric.MeterProvider
	tracers    trace.TracerProvider
	class      func(name string) string
	holdSpans  bool
	attributes []attribute.KeyValue
}

// WithMeterProvider records the metrics with the provider instead of the global one.
func WithMeterProvider(p metric.MeterProvider) Option { return func(s *settings) { s.meters = p } }

// WithTracerProvider records the spans with the provider instead of the global one.
func WithTracerProvider(p trace.TracerProvider) Option { return func(s *settings) { s.tracers = p } }

// WithLockClass adds the attribute lock.class: the result of the function for the name of a lock,
// as "orders" for "lock:orders:42". It must return one of a few values, since each is a time series
// of its own for each metric; for "" there is no attribute. It is called for each event, by many
// goroutines at once.
func WithLockClass(class func(name string) string) Option {
	return func(s *settings) { s.class = class }
}

// WithHoldSpans adds a span for each hold of a lock, when it has ended. Without it there are spans
// for waits only.
func WithHoldSpans() Option { return func(s *settings) { s.holdSpans = true } }

// WithAttributes adds attributes to every measurement and span, for example one that tells the
// clients of two Redis servers apart, each with an observer of its own.
func WithAttributes(attributes ...attribute.KeyValue) Option {
	return func(s *settings) { s.attributes = append(s.attributes, attributes...) }
}

// NewObserver returns an observer for [rlock.Config]. It fails only if the meter refuses an
// instrument. The observer keeps the clients that use it until they are closed.
func NewObserver(options ...Option) (*rlock.Observer, error) {
	var s settings
	for _, option := range options {
		if option != nil {
			option(&s)
		}
	}
	if s.class == nil {
		s.class = func(string) string { return "" }
	}
	if s.meters == nil {
		s.meters = otel.GetMeterProvider()
	}
	if s.tracers == nil {
		s.tracers = otel.GetTracerProvider()
	}
	o := &observer{settings: s, clients: make(map[*rlock.Client]bool), tracer: s.tracers.Tracer(scope)}
	o.labels.seen = make(map[label]*labelled)
	if err := o.instrument(s.meters.Meter(scope)); err != nil {
		return nil, fmt.Errorf("rlockotel: %w", err)
	}
	return &rlock.Observer{
		Opened:   o.opened,
		Waiting:  o.waiting,
		Acquired: o.acquired,
		Answered: o.answered,
		GaveUp:   o.gaveUp,
		Released: o.released,
		Lost:     o.lost,
		Renewed:  o.renewed,
		Closed:   o.closed,
	}, nil
}

// An observer has the hooks. Each of them may be called by many goroutines at once.
type observer struct {
	settings
	instruments
	tracer trace.Tracer
	labels labels

	mu      sync.Mutex // guards the fields below
	clients map[*rlock.Client]bool
	past    inspect.Stats // the sum over the clients that were closed
}

func (o *observer) opened(c *rlock.Client) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clients[c] = true
}

func (o *observer) closed(c *rlock.Client) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.clients[c] {
		delete(o.clients, c)
		past := inspect.Of(c).Stats()
		past.Held, past.Waiting = 0, 0
		o.past = o.past.Add(past)
	}
}

// stats returns the sum of the figures of all clients.
func (o *observer) stats() inspect.Stats {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.past
	for c := range o.clients {
		all = all.Add(inspect.Of(c).Stats())
	}
	return all
}

func (o *observer) waiting(ctx context.Context, i rlock.WaitingInfo) {
	o.waiters.Add(ctx, 1, o.of(label{kind: i.Kind, class: o.class(i.Name)}).add...)
}

func (o *observer) acquired(ctx context.Context, i rlock.AcquiredInfo) {
	if i.AcquiredBy == rlock.ByNesting {
		return
	}
	o.called(ctx, i.LockInfo, label{result: "acquired", way: string(i.AcquiredBy)}, i.Waited, i.Contended, nil)
}

func (o *observer) answered(ctx context.Context, i rlock.AnsweredInfo) {
	o.called(ctx, i.LockInfo, label{result: "answered"}, i.Waited, i.Contended, nil)
}

func (o *observer) gaveUp(ctx context.Context, i rlock.GaveUpInfo) {
	result, fault := resultOf(i.Err)
	o.called(ctx, i.LockInfo, label{result: result, fault: fault}, i.Waited, i.Contended, i.Err)
}

// called records the end of a call for a lock. If the label has a fault, err is the error of the
// call's span.
func (o *observer) called(ctx context.Context, i rlock.LockInfo, l label, waited time.Duration, contended bool, err error) {
	l.kind, l.class = i.Kind, o.class(i.Name)
	known := o.of(l)
	o.acquireDuration.Record(ctx, waited.Seconds(), known.record...)
	if !contended {
		return
	}
	o.waiters.Add(ctx, -1, o.of(label{kind: l.kind, class: l.class}).add...)
	span := o.span(ctx, "lock.acquire", waited, known)
	if l.fault != "" {
		fail(span, err)
	}
	span.End()
}

func (o *observer) released(ctx context.Context, i rlock.ReleasedInfo) {
	if i.AcquiredBy == rlock.ByNesting {
		return
	}
	l := o.of(label{kind: i.Kind, class: o.class(i.Name), release: releaseOf(i)})
	o.holdDuration.Record(ctx, i.Held.Seconds(), l.record...)
	if o.holdSpans {
		o.span(ctx, "lock.hold", i.Held, l).End()
	}
}

func (o *observer) lost(ctx context.Context, i rlock.LostInfo) {
	reason := attribute.String("lock.reason", string(i.Reason))
	trace.SpanFromContext(ctx).AddEvent("lock.lost", trace.WithAttributes(reason))
	if i.AcquiredBy == rlock.ByNesting {
		return
	}
	l := o.of(label{kind: i.Kind, class: o.class(i.Name), release: "lost"})
	o.holdDuration.Record(ctx, i.Held.Seconds(), l.record...)
	if o.holdSpans {
		span := o.span(ctx, "lock.hold", i.Held, l)
		span.SetAttributes(reason)
		fail(span, i.Err)
		span.End()
	}
}

func (o *observer) renewed(i rlock.RenewedInfo) {
	l := label{result: "ok"}
	if i.Failed > 0 {
		l.result = "failed"
	}
	o.renewDuration.Record(context.Background(), i.Took.Seconds(), o.of(l).record...)
	if i.Kept > 0 {
		o.leaseMargin.Record(context.Background(), max(i.Margin, 0).Seconds()/i.Lease.Seconds(), o.of(label{}).record...)
	}
}

// span returns a span that began so long ago.
func (o *observer) span(ctx context.Context, name string, ago time.Duration, l *labelled) trace.Span {
	_, span := o.tracer.Start(ctx, name, trace.WithTimestamp(time.Now().Add(-ago)), trace.WithAttributes(l.attributes...))
	return span
}
