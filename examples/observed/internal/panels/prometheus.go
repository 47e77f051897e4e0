package panels

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// Prometheus is one that runs, as its HTTP API shows it. Its methods may be called
// concurrently.
type Prometheus struct {
	URL    string        // as "http://127.0.0.1:9090"
	Scrape time.Duration // between two scrapes, by its configuration
}

// A Span is a time that is asked about, with a point for each step.
type Span struct {
	From, To time.Time
	Step     time.Duration
}

// A Series is a time series.
type Series struct {
	Labels map[string]string
	Points []Point
}

// A Point is a value at a time. It may be NaN, as that of a quantile of nothing is.
type Point struct {
	At    time.Time
	Value float64
}

// Range evaluates an expression of PromQL over a span.
func (p *Prometheus) Range(ctx context.Context, expression string, span Span) ([]Series, error) {
	var answer struct {
		Result []struct {
			Metric map[string]string
			Values [][2]any // seconds, and the value as text
		}
	}
	err := p.get(ctx, "query_range", url.Values{
		"query": {expression},
		"start": {span.From.Format(time.RFC3339Nano)},
		"end":   {span.To.Format(time.RFC3339Nano)},
		"step":  {fmt.Sprint(span.Step.Seconds())},
	}, &answer)
	if err != nil {
		return nil, err
	}
	all := make([]Series, len(answer.Result))
	for i, result := range answer.Result {
		all[i].Labels = result.Metric
		for _, value := range result.Values {
			seconds, _ := value[0].(float64)
			text, _ := value[1].(string)
			parsed, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, fmt.Errorf("panels: a value of %s: %w", expression, err)
			}
			all[i].Points = append(all[i].Points, Point{time.UnixMilli(int64(seconds * 1000)), parsed})
		}
	}
	return all, nil
}

// An Alert is a rule, and when it was pending and firing.
type Alert struct {
	Name            string
	Pending, Firing []time.Time // the steps of the span, for each of its time series
}

// Alerts returns the alerts of all rules, in their order. A rule that Prometheus cannot
// evaluate is an error.
func (p *Prometheus) Alerts(ctx context.Context, span Span) ([]Alert, error) {
	var answer struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if err := p.get(ctx, "rules", url.Values{"type": {"alert"}}, &answer); err != nil {
		return nil, err
	}
	var all []Alert
	for _, group := range answer.Groups {
		for _, rule := range group.Rules {
			if rule.Health != "ok" {
				return nil, fmt.Errorf("panels: the rule %s is %s: %s", rule.Name, rule.Health, rule.LastError)
			}
			alert := Alert{Name: rule.Name}
			states, err := p.Range(ctx, fmt.Sprintf("ALERTS{alertname=%q}", rule.Name), span)
			if err != nil {
				return nil, err
			}
			for _, series := range states {
				times := &alert.Pending
				if series.Labels["alertstate"] == "firing" {
					times = &alert.Firing
				}
				for _, point := range series.Points {
					*times = append(*times, point.At)
				}
			}
			slices.SortFunc(alert.Pending, time.Time.Compare)
			slices.SortFunc(alert.Firing, time.Time.Compare)
			all = append(all, alert)
		}
	}
	return all, nil
}

// get asks the API, and reads the data of its answer.
func (p *Prometheus) get(ctx context.Context, what string, query url.Values, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/api/v1/"+what+"?"+query.Encode(), nil)
	if err != nil {
		return fmt.Errorf("panels: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("panels: %w", err)
	}
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("panels: read the answer of %s (%s): %w", what, response.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("panels: %s: %s", what, answer.Error)
	}
	return nil
}
