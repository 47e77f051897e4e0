package rlockotel

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/go-rlock/rlock/rlock"
)

// A label is a combination of attributes; an attribute that is "" is absent.
type label struct {
	kind                                rlock.Kind
	class, result, way, release, reason string
	fault                               string
}

// labelled is a label as OpenTelemetry takes it. The options are slices, so that a call allocates
// none.
type labelled struct {
	attributes []attribute.KeyValue
	observe    []metric.ObserveOption
	add        []metric.AddOption
	record     []metric.RecordOption
}

// labels has the labels that were seen.
type labels struct {
	mu   sync.RWMutex // guards the fields below
	seen map[label]*labelled
}

// of returns the label as OpenTelemetry takes it, which is made once.
func (o *observer) of(l label) *labelled {
	o.labels.mu.RLock()
	known := o.labels.seen[l]
	o.labels.mu.RUnlock()
	if known != nil {
		return known
	}
	attributes := append([]attribute.KeyValue(nil), o.attributes...)
	for _, a := range [...]struct{ key, value string }{
		{"lock.kind", string(l.kind)},
		{"lock.class", l.class},
		{"lock.result", l.result},
		{"lock.way", l.way},
		{"lock.release", l.release},
		{"lock.reason", l.reason},
		{"error.type", l.fault},
	} {
		if a.value != "" {
			attributes = append(attributes, attribute.String(a.key, a.value))
		}
	}
	option := metric.WithAttributeSet(attribute.NewSet(attributes...))
	known = &labelled{attributes, []metric.ObserveOption{option}, []metric.AddOption{option}, []metric.RecordOption{option}}
	o.labels.mu.Lock()
	defer o.labels.mu.Unlock()
	o.labels.seen[l] = known
	return known
}

// faults are the errors of rlock with which an acquire may fail, with the names of their variables.
var faults = []struct {
	err  error
	name string
}{
	{rlock.ErrLost, "ErrLost"},
	{rlock.ErrUpgrade, "ErrUpgrade"},
	{rlock.ErrNotReplicated, "ErrNotReplicated"},
	{rlock.ErrClosed, "ErrClosed"},
	{rlock.ErrInvalidName, "ErrInvalidName"},
	{rlock.ErrInvalidLease, "ErrInvalidLease"},
	{rlock.ErrPermits, "ErrPermits"},
	{rlock.ErrInvalidConfig, "ErrInvalidConfig"},
	{rlock.ErrUnsupported, "ErrUnsupported"},
	{rlock.ErrWrongType, "ErrWrongType"},
	{rlock.ErrNoPermission, "ErrNoPermission"},
}

// resultOf returns the result of an acquire that failed, and, if the result is error, the name of
// the fault.
func resultOf(err error) (result, fault string) {
	switch {
	case errors.Is(err, rlock.ErrTooManyWaiters):
		return "full", ""
	case errors.Is(err, rlock.ErrNotAcquired):
		return "busy", ""
	case errors.Is(err, context.Canceled):
		return "canceled", ""
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout", ""
	}
	for _, f := range faults {
		if errors.Is(err, f.err) {
			return "error", f.name
		}
	}
	return "error", "_OTHER"
}

func releaseOf(i rlock.ReleasedInfo) string {
	switch {
	case i.Passed:
		return "passed"
	case errors.Is(i.Err, rlock.ErrClosed):
		return "closed"
	case i.Err != nil:
		return "unconfirmed"
	}
	return "released"
}

// fail marks a span as one that failed.
func fail(span trace.Span, err error) {
	span.RecordError(err)
	span.SetStatus(codes.Error, err.Error())
}
