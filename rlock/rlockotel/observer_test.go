package rlockotel_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/go-rlock/rlock/internal/golden"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/once"
	"github.com/go-rlock/rlock/rlock/rlockotel"
)

// The [golden.Steps] of a story are those of callers with names. "metrics", "spans" and a step that
// fails show what there is by then, "metrics" only figures that have changed since the last one, or
// from 0, unless "all" is said. A line that begins with "#" says why.
func TestStories(t *testing.T) {
	golden.Each(t, func(t *testing.T, story string) (got string) {
		redistest.Bubble(t, func(t *testing.T, s *redistest.Server) { got = perform(t, s, story) })
		return got
	})
}

// A lab has clients with one observer, and the recorded telemetry.
type lab struct {
	t       *testing.T
	server  *redistest.Server
	began   time.Time
	config  rlock.Config
	clients []*rlock.Client
	reader  *sdkmetric.ManualReader
	spans   *tracetest.SpanRecorder
	tracer  trace.Tracer

	callers map[string]context.Context
	cancels map[string]context.CancelFunc
	results map[string]chan error // of calls that wait
	holds   map[string]*rlock.Hold
	passes  map[string]string
	groups  map[string]*once.Group // of package once, by their callers
	told    map[string]bool        // lines of metrics
}

func (l *lab) open(t *testing.T) {
	client, err := rlock.New(l.config)
	require.NoError(t, err)
	l.clients = append(l.clients, client)
}

// caller returns the context of the caller of that name, each an owner.
func (l *lab) caller(name string) context.Context {
	if l.callers[name] == nil {
		l.callers[name], l.cancels[name] = context.WithCancel(rlock.WithOwner(l.t.Context(), rlock.NewOwner()))
	}
	return l.callers[name]
}

// perform carries out the steps of a story, and returns it with what is measured.
func perform(t *testing.T, s *redistest.Server, story string) string {
	l := &lab{t: t, server: s, began: time.Now(), reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder(),
		callers: map[string]context.Context{}, cancels: map[string]context.CancelFunc{}, results: map[string]chan error{}, holds: map[string]*rlock.Hold{}, passes: map[string]string{}, groups: map[string]*once.Group{}}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(l.spans))
	l.tracer = tracers.Tracer("test")
	options := []rlockotel.Option{rlockotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(l.reader))), rlockotel.WithTracerProvider(tracers)}
	text := golden.Steps(story, func(line string, out *strings.Builder) (shows bool) {
		step := append(strings.Fields(line), "", "", "")
		switch what := step[0]; what {
		case "", "#":
		case "with": // an option; the client is opened at the first other step
			switch step[1] {
			case "spans":
				options = append(options, rlockotel.WithHoldSpans())
			case "class":
				options = append(options, rlockotel.WithLockClass(func(name string) string {
					class, _, _ := strings.Cut(name, ":")
					return strings.TrimPrefix(class, "none")
				}))
			case "attribute":
				options = append(options, rlockotel.WithAttributes(attribute.String(step[2], step[3])))
			}
		case "client":
			if l.config.Observer == nil {
				observer, err := rlockotel.NewObserver(options...)
				require.NoError(t, err)
				l.config = rlock.Config{Redis: s.Options(), Observer: observer, Lease: 3 * time.Second, Advanced: rlock.Advanced{TrackedKeys: -1}}
			}
			l.open(t)
		case "metrics", "spans":
			synctest.Wait()
			if what == "metrics" {
				l.metrics(out, step[1] == "all")
			} else {
				l.ended(out)
			}
			return true
		case "sleep":
			long, err := time.ParseDuration(step[1])
			require.NoError(t, err)
			time.Sleep(long)
		default:
			if result := l.step(what, step[1], step[2]); result != "" {
				fmt.Fprintln(out, result)
				return true
			}
		}
		return false
	})
	for _, group := range l.groups {
		group.Close()
	}
	for _, client := range l.clients {
		require.NoError(t, client.Close())
	}
	return number.ReplaceAllString(text, "owner N")
}

var number = regexp.MustCompile(`owner \d+`)

// step carries out what a caller does with a lock, by the last client. It returns the error.
func (l *lab) step(what, who, name string) string {
	client, ctx := l.clients[len(l.clients)-1], l.caller(who)
	lock := client.NewLock(name)
	if kind, rest, ok := strings.Cut(name, "="); ok && kind == "fair" {
		lock = client.NewFairLock(rest)
	}
	var err error
	switch what {
	case "request": // its span is that of the caller
		l.callers[who], _ = l.tracer.Start(ctx, "request")
	case "responds":
		trace.SpanFromContext(ctx).End()
	case "lock":
		err = lock.Lock(ctx)
	case "unlock":
		err = lock.Unlock(ctx)
	case "waits":
		result := make(chan error, 1)
		l.results[who] = result
		go func() { result <- lock.Lock(ctx) }()
		synctest.Wait()
	case "cancels":
		l.cancels[who]()
		fallthrough
	case "returns":
		err = <-l.results[who]
	case "tries":
		_, err = lock.TryLock(ctx)
	case "tries-1s":
		_, err = lock.TryLockFor(ctx, time.Second, 0)
	case "locks-for-1s":
		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err = lock.Lock(soon)
	case "locks-with-1ns":
		err = lock.LockFor(ctx, time.Nanosecond)
	case "does-1s":
		err = lock.Do(ctx, func(context.Context) error { time.Sleep(time.Second); return nil })
	case "acquires":
		l.holds[who], err = lock.Acquire(ctx)
	case "releases":
		err = l.holds[who].Release(ctx)
	case "passes":
		l.passes[who], err = l.holds[who].Pass(ctx, time.Minute)
	case "resumes":
		l.holds[who], err = client.Resume(ctx, l.passes[who])
	case "forces":
		_, err = lock.ForceUnlock(ctx)
	case "deletes": // with a client that has no lock
		other := l.server.Client(l.t)
		err = other.Do(ctx, other.B().Del().Key(name).Build()).Error()
		other.Close()
	case "asks": // in a group of its own, for a value that takes a second
		l.groups[who] = once.New(client, once.Options{})
		result := make(chan error, 1)
		l.results[who] = result
		go func() {
			_, _, err := l.groups[who].Do(ctx, name, func(context.Context) ([]byte, error) { time.Sleep(time.Second); return nil, nil })
			result <- err
		}()
		synctest.Wait()
	case "closes":
		err = client.Close()
		l.clients = l.clients[:max(len(l.clients)-1, 1)]
	default:
		require.FailNow(l.t, "no such step", what)
	}
	if err != nil {
		return "! " + err.Error()
	}
	return ""
}

// metrics writes measurements: the value of a counter, the count and the sum of a histogram. Of
// commands it writes whether there were any.
func (l *lab) metrics(text *strings.Builder, all bool) {
	var read metricdata.ResourceMetrics
	require.NoError(l.t, l.reader.Collect(context.Background(), &read))
	lines := make(map[string]bool)
	add := func(name string, attributes attribute.Set, format string, values ...any) {
		lines[strings.TrimSpace(fmt.Sprintf("%s %s", strings.TrimPrefix(name, "lock.client."), attributes.Encoded(attribute.DefaultEncoder())))+": "+fmt.Sprintf(format, values...)] = true
	}
	for _, scope := range read.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					if m.Name == "lock.client.commands" {
						p.Value = min(p.Value, 1)
					}
					add(m.Name, p.Attributes, "%d", p.Value)
				}
			case metricdata.Sum[float64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, "%.3g", p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, "%d of %.2g", p.Count, p.Sum)
				}
			default:
				l.t.Fatalf("%s is a %T", m.Name, data)
			}
		}
	}
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		if all || !l.told[line] && (l.told != nil || !strings.HasSuffix(line, ": 0")) {
			fmt.Fprintln(text, line)
		}
	}
	l.told = lines
}

// ended writes the spans that have ended, with the names of those that they are in.
func (l *lab) ended(text *strings.Builder) {
	spans := l.spans.Ended()
	for _, span := range spans {
		within := ""
		for _, other := range l.spans.Started() {
			if other.SpanContext().SpanID() == span.Parent().SpanID() {
				within = " in " + other.Name()
			}
		}
		set := attribute.NewSet(span.Attributes()...)
		line := fmt.Sprintf("%s%s, %v to %v, %s: %s", span.Name(), within, span.StartTime().Sub(l.began), span.EndTime().Sub(l.began), span.Status().Code, set.Encoded(attribute.DefaultEncoder()))
		fmt.Fprintln(text, strings.TrimSuffix(line, ": "))
		for _, event := range span.Events() {
			set := attribute.NewSet(event.Attributes...)
			fmt.Fprintf(text, "\t%s %s\n", event.Name, set.Encoded(attribute.DefaultEncoder()))
		}
	}
}

// hooks returns a function that calls the hooks of one Lock and Unlock.
func hooks(t testing.TB) func() {
	o, err := rlockotel.NewObserver(rlockotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))))
	require.NoError(t, err)
	ctx, info := context.Background(), rlock.LockInfo{Name: "orders:42", Kind: rlock.KindPlain}
	return func() {
		o.Acquired(ctx, rlock.AcquiredInfo{LockInfo: info, AcquiredBy: rlock.ByRedis, Waited: time.Millisecond})
		o.Released(ctx, rlock.ReleasedInfo{LockInfo: info, AcquiredBy: rlock.ByRedis, Held: time.Millisecond})
	}
}

func TestTheHooksAllocateNothingForKnownAttributes(t *testing.T) {
	assert.Zero(t, testing.AllocsPerRun(100, hooks(t)))
}

func BenchmarkHooks(b *testing.B) {
	call := hooks(b)
	for b.Loop() {
		call()
	}
}

func TestNilOptionsAreNone(t *testing.T) {
	o, err := rlockotel.NewObserver(nil, rlockotel.WithMeterProvider(nil), rlockotel.WithTracerProvider(nil), rlockotel.WithLockClass(nil))
	require.NoError(t, err)
	o.Acquired(context.Background(), rlock.AcquiredInfo{LockInfo: rlock.LockInfo{Name: "orders:42", Kind: rlock.KindPlain}, AcquiredBy: rlock.ByRedis})
}
