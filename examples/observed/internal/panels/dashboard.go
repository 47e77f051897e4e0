package panels

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// A Dashboard is the part of one of Grafana that is drawn.
type Dashboard struct {
	Title  string
	Panels []*Panel
}

// A Panel is one figure, or a chart of lines. The fields have the names of Grafana's JSON.
type Panel struct {
	Type    string // "stat" or "timeseries"
	Title   string
	GridPos struct{ X, Y, W, H int } // 24 columns are the whole width

	FieldConfig struct {
		Defaults struct {
			Unit     string
			Decimals *int
			Custom   struct {
				Stacking struct{ Mode string }
			}
			Thresholds struct {
				Steps []struct {
					Color string   // "green" or "red"
					Value *float64 // nil: from the beginning
				}
			}
		}
	}
	Targets []struct{ Expr, LegendFormat string }

	// Lines are the answers to the targets; [Dashboard.Ask] sets them.
	Lines []Line `json:"-"`
}

// A Line is one time series of an answer, by the name that the panel's legend gives it.
type Line struct {
	Name   string
	Points []Point
}

// Read reads a dashboard from Grafana's JSON.
func Read(text []byte) (*Dashboard, error) {
	d := new(Dashboard)
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("panels: read the dashboard: %w", err)
	}
	return d, nil
}

// ErrNoData is wrapped by the error of [Dashboard.Ask] if nothing answers a query.
var ErrNoData = errors.New("no data")

// Ask asks all queries of the dashboard about a span of time. Its variables stand for all
// jobs, and for a rate over four scrapes, as they do in Grafana by default. The error names
// each panel whose query failed, or found nothing; the other panels have their lines.
func (d *Dashboard) Ask(ctx context.Context, source *Prometheus, span Span) error {
	variables := strings.NewReplacer("$job", ".*", "$__rate_interval", fmt.Sprintf("%.0fs", 4*source.Scrape.Seconds()))
	var failed []error
	for _, p := range d.Panels {
		p.Lines = nil
		for _, target := range p.Targets {
			answer, err := source.Range(ctx, variables.Replace(target.Expr), span)
			if err == nil && len(answer) == 0 {
				err = ErrNoData
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("panels: %s: %s: %w", p.Title, target.Expr, err))
			}
			for _, series := range answer {
				p.Lines = append(p.Lines, Line{legend(target.LegendFormat, series.Labels), series.Points})
			}
		}
	}
	return errors.Join(failed...)
}

var label = regexp.MustCompile(`{{\s*(\w+)\s*}}`)

// legend returns a name of a time series by the panel's format, or its labels without one.
func legend(format string, labels map[string]string) string {
	if format == "" {
		var all []string
		for _, name := range slices.Sorted(maps.Keys(labels)) {
			all = append(all, name+"="+labels[name])
		}
		return strings.Join(all, " ")
	}
	return label.ReplaceAllStringFunc(format, func(found string) string { return labels[label.FindStringSubmatch(found)[1]] })
}
