package main_test

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

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
)

// exported returns the names of the metrics as the exporter of Prometheus has them, each with
// its labels.
func exported(t *testing.T) map[string]map[string]bool {
	t.Helper()
	found := make(map[string]map[string]bool)
	redistest.Bubble(t, func(t *testing.T, server *redistest.Server) {
		registry := prometheus.NewRegistry()
		exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
		require.NoError(t, err)
		observer, err := rlockotel.NewObserver(
			rlockotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))),
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
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, family := range families {
			labels := map[string]bool{"job": true, "le": true} // which Prometheus adds, and the buckets have
			for _, m := range family.GetMetric() {
				for _, l := range m.GetLabel() {
					labels[l.GetName()] = true
				}
			}
			names := []string{family.GetName()}
			if family.GetType().String() == "HISTOGRAM" {
				names = append(names, names[0]+"_bucket", names[0]+"_count", names[0]+"_sum")
			}
			for _, name := range names {
				found[name] = labels
			}
		}
		require.NoError(t, client.Close())
	})
	return found
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
				shown[strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count")] = true
			}
		}
	}
	for name := range metrics {
		if strings.HasPrefix(name, "lock_client_") && !regexp.MustCompile(`_(bucket|count|sum)$`).MatchString(name) {
			assert.True(t, shown[name], "no panel shows %s", name)
		}
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
