package panels_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/examples/observed/internal/panels"
	"github.com/go-rlock/rlock/rlock/rlockotel/dashboards"
)

// span is one that a test asks about.
var span = panels.Span{From: time.Unix(1000, 0), To: time.Unix(1060, 0), Step: 20 * time.Second}

// prometheus answers each query with the value of result, and all rules with rules.
func prometheus(t *testing.T, result func(query string) string, rules string) *panels.Prometheus {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/rules") {
			fmt.Fprintf(w, `{"status":"success","data":{"groups":[{"rules":[%s]}]}}`, rules)
			return
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[%s]}}`, result(r.FormValue("query")))
	}))
	t.Cleanup(server.Close)
	return &panels.Prometheus{URL: server.URL, Scrape: 2 * time.Second}
}

// series is a time series in JSON with these values at the steps of the span.
func series(labels string, values ...string) string {
	var points []string
	for i, v := range values {
		points = append(points, fmt.Sprintf(`[%d,%q]`, span.From.Unix()+20*int64(i), v))
	}
	return fmt.Sprintf(`{"metric":{%s},"values":[%s]}`, labels, strings.Join(points, ","))
}

// draw returns the picture, and the texts in it.
func draw(t *testing.T, p panels.Picture) (svg string, texts []string) {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, p.WriteSVG(&out))
	svg = out.String()
	for decoder := xml.NewDecoder(&out); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return svg, texts
		}
		require.NoError(t, err, "the picture is well-formed")
		if text, ok := token.(xml.CharData); ok {
			texts = append(texts, strings.TrimSpace(string(text)))
		}
	}
}

func TestThePictureHasEachPanelOfTheDashboardWithItsLines(t *testing.T) {
	t.Parallel()
	source := prometheus(t, func(query string) string {
		assert.NotContains(t, query, "$")
		if strings.Contains(query, "ALERTS") {
			return series(`"alertstate":"firing"`, "1", "1")
		}
		return series(`"lock_class":"<orders>","lock_way":"queue","lock_result":"busy","lock_reason":"forced"`, "1", "NaN", "3.4")
	}, `{"name":"LockLost","health":"ok"}`)
	dashboard, err := panels.Read(dashboards.Grafana)
	require.NoError(t, err)
	require.NoError(t, dashboard.Ask(t.Context(), source, span))
	alerts, err := source.Alerts(t.Context(), span)
	require.NoError(t, err)
	require.Len(t, alerts, 1)
	assert.Equal(t, []time.Time{span.From, span.From.Add(span.Step)}, alerts[0].Firing)
	assert.Empty(t, alerts[0].Pending)

	svg, texts := draw(t, panels.Picture{Dashboard: dashboard, Span: span, Alerts: alerts,
		Events: []panels.Event{{At: span.From.Add(30 * time.Second), Text: "Redis ends"}}})
	for _, panel := range dashboard.Panels {
		assert.Contains(t, texts, panel.Title)
	}
	for _, text := range []string{
		"3.4/s", "3", // figures: one with a unit, others of whole locks
		"<orders>", "queue", "busy", "forced", "p99", // legends
		"LockLost", "A", "A  0:30  Redis ends",
	} {
		assert.Contains(t, texts, text)
	}
	assert.False(t, strings.Contains(svg, "NaN"), "a value that is none is a gap")
}

func TestAPanelWithoutDataIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	source := prometheus(t, func(query string) string {
		if strings.Contains(query, "lost_total") {
			return ""
		}
		return series("", "1")
	}, "")
	dashboard, err := panels.Read(dashboards.Grafana)
	require.NoError(t, err)
	err = dashboard.Ask(t.Context(), source, span)
	require.ErrorIs(t, err, panels.ErrNoData)
	assert.ErrorContains(t, err, "Lost in the last hour")
	assert.ErrorContains(t, err, "Lost, by the reason")
	assert.NotContains(t, err.Error(), "Waiting")
}

func TestARuleThatCannotBeEvaluatedIsAnError(t *testing.T) {
	t.Parallel()
	source := prometheus(t, func(string) string { return "" }, `{"name":"LockLost","health":"err","lastError":"many-to-many matching"}`)
	_, err := source.Alerts(t.Context(), span)
	assert.ErrorContains(t, err, "LockLost is err: many-to-many matching")
}

func TestAnAxisBeginsAtZeroAndEndsAboveTheGreatestValue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		unit   string
		values []string
		axis   []string
	}{
		{"short", []string{"0"}, []string{"0", "0.5", "1"}},
		{"short", []string{"NaN"}, []string{"0", "0.5", "1"}},
		{"short", []string{"7"}, []string{"0", "2", "4", "6", "8"}},
		{"short", []string{"2000"}, []string{"0", "500", "1 k", "1.5 k", "2 k"}},
		{"ops", []string{"30"}, []string{"0/s", "10/s", "20/s", "30/s"}},
		{"percentunit", []string{"0.7"}, []string{"0 %", "20 %", "40 %", "60 %", "80 %"}},
		{"s", []string{"0.0003"}, []string{"0 s", "100 µs", "200 µs", "300 µs"}},
		{"s", []string{"1.1"}, []string{"0 s", "500 ms", "1 s", "1.5 s"}},
		{"short", []string{"7", "5"}, []string{"0", "5", "10", "15"}}, // stacked
	} {
		source := prometheus(t, func(string) string {
			var all []string
			for _, v := range c.values {
				all = append(all, series("", v))
			}
			return strings.Join(all, ",")
		}, "")
		dashboard, err := panels.Read(fmt.Appendf(nil, `{"panels":[{"type":"timeseries","gridPos":{"w":8,"h":8},"targets":[{"expr":"x","legendFormat":"line"}],
			"fieldConfig":{"defaults":{"unit":%q,"custom":{"stacking":{"mode":"normal"}}}}}]}`, c.unit))
		require.NoError(t, err)
		require.NoError(t, dashboard.Ask(t.Context(), source, span))
		_, texts := draw(t, panels.Picture{Dashboard: dashboard, Span: span})
		var axis []string
		for _, text := range texts {
			if text != "" && text != "line" && !strings.Contains(text, ":") {
				axis = append(axis, text)
			}
		}
		assert.Equal(t, c.axis, axis, "%v", c.values)
	}
}
