package dashboards_test

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/otlptranslator"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/rlockotel"
	"github.com/go-rlock/rlock/rlock/rlockotel/dashboards"
)

var (
	metric   = regexp.MustCompile(`\block_client_\w+`)
	labelled = regexp.MustCompile(`\b(lock_client_\w+)\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`(\w+)\s*[=!]~?`)
	grouping = regexp.MustCompile(`by \(([^)]*)\)`)
	part     = regexp.MustCompile(`_(bucket|count|sum)$`)
)

// exported returns the names that the metrics have in Prometheus, each with its labels.
func exported(t *testing.T) map[string]map[string]bool {
	t.Helper()
	found := make(map[string]map[string]bool)
	redistest.Bubble(t, func(t *testing.T, server *redistest.Server) {
		reader := sdkmetric.NewManualReader()
		observer, err := rlockotel.NewObserver(
			rlockotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))),
			rlockotel.WithLockClass(func(string) string { return "all" }),
		)
		require.NoError(t, err)
		client, err := rlock.New(rlock.Config{Redis: server.Options(), Observer: observer, Lease: time.Second})
		require.NoError(t, err)
		me, them := rlock.WithOwner(t.Context(), rlock.NewOwner()), rlock.WithOwner(t.Context(), rlock.NewOwner())
		lock := client.NewLock("orders:42")
		require.NoError(t, lock.Lock(me))
		_, err = lock.TryLockFor(them, 2*time.Second, 0) // a wait, and renewals meanwhile
		require.NoError(t, err)
		soon, cancel := context.WithTimeout(them, time.Second)
		defer cancel()
		require.Error(t, lock.Lock(soon))
		require.NoError(t, lock.Unlock(me))
		synctest.Wait()
		var all metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(context.Background(), &all))
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				export(t, found, m)
			}
		}
		require.NoError(t, client.Close())
	})
	return found
}

// export adds the names and the labels of a metric as the exporter of OpenTelemetry has them by
// default.
func export(t *testing.T, found map[string]map[string]bool, m metricdata.Metrics) {
	t.Helper()
	kind, labels := otlptranslator.MetricType(otlptranslator.MetricTypeGauge), map[string]bool{"job": true} // which Prometheus adds
	add := func(attributes attribute.Set) {
		for _, kv := range attributes.ToSlice() {
			name, err := (&otlptranslator.LabelNamer{}).Build(string(kv.Key))
			require.NoError(t, err)
			labels[name] = true
		}
	}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		if data.IsMonotonic {
			kind = otlptranslator.MetricTypeMonotonicCounter
		}
		for _, p := range data.DataPoints {
			add(p.Attributes)
		}
	case metricdata.Sum[float64]:
		require.True(t, data.IsMonotonic, m.Name)
		kind = otlptranslator.MetricTypeMonotonicCounter
		for _, p := range data.DataPoints {
			add(p.Attributes)
		}
	case metricdata.Histogram[float64]:
		kind, labels["le"] = otlptranslator.MetricTypeHistogram, true
		for _, p := range data.DataPoints {
			add(p.Attributes)
		}
	default:
		require.Fail(t, "a metric of another type", "%s: %T", m.Name, data)
	}
	namer := otlptranslator.NewMetricNamer("", otlptranslator.UnderscoreEscapingWithSuffixes)
	name, err := namer.Build(otlptranslator.Metric{Name: m.Name, Unit: m.Unit, Type: kind})
	require.NoError(t, err)
	found[name] = labels
	if labels["le"] {
		found[name+"_bucket"], found[name+"_count"], found[name+"_sum"] = labels, labels, labels
	}
}

// check asserts that the metrics of an expression and their labels exist.
func check(t *testing.T, exported map[string]map[string]bool, expression string) {
	t.Helper()
	labels := make(map[string]bool)
	for _, name := range metric.FindAllString(expression, -1) {
		assert.NotNil(t, exported[name], "there is no metric %s: %s", name, expression)
		for label := range exported[name] {
			labels[label] = true
		}
	}
	for _, selector := range labelled.FindAllStringSubmatch(expression, -1) {
		for _, label := range matcher.FindAllStringSubmatch(selector[2], -1) {
			assert.True(t, exported[selector[1]][label[1]], "%s has no label %s", selector[1], label[1])
		}
	}
	for _, group := range grouping.FindAllStringSubmatch(expression, -1) {
		for label := range strings.SplitSeq(group[1], ",") {
			assert.True(t, labels[strings.TrimSpace(label)], "no metric of %s has a label %s", expression, label)
		}
	}
}

func TestTheDashboardShowsMetricsThatExist(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(dashboards.Grafana, &dashboard))
	metrics, shown := exported(t), make(map[string]bool)
	require.NotEmpty(t, dashboard.Panels)
	for _, panel := range dashboard.Panels {
		require.NotEmpty(t, panel.Targets, panel.Title)
		for _, target := range panel.Targets {
			check(t, metrics, target.Expr)
			for _, name := range metric.FindAllString(target.Expr, -1) {
				shown[part.ReplaceAllString(name, "")] = true
			}
		}
	}
	for name := range metrics {
		assert.True(t, shown[part.ReplaceAllString(name, "")], "no panel shows %s", name)
	}
}

func TestTheAlertsWatchMetricsThatExist(t *testing.T) {
	text, metrics := string(dashboards.Alerts), exported(t)
	expressions := regexp.MustCompile(`(?m)^ +expr: (>-\n(?: {10,}.*\n)+|.*\n)`).FindAllStringSubmatch(text, -1)
	require.Len(t, expressions, strings.Count(text, "- alert:"))
	for _, e := range expressions {
		require.Regexp(t, metric, e[1])
		check(t, metrics, e[1])
	}
}
