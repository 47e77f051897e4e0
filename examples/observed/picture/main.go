// Command picture makes the picture of the dashboard in docs/observability.md. From the root
// of the repository:
//
//	go run -C examples/observed ./picture > docs/dashboard.svg
//
// It runs the example for six minutes on a Redis of its own, has a Prometheus collect the
// metrics and watch the alert rules, and causes trouble on the way. Then it asks Prometheus
// what the panels of the dashboard ask, and draws the answers. It fails if a panel has no
// data, or a rule cannot be evaluated.
//
// It needs redis-server and prometheus in PATH, and leaves nothing behind.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/examples/observed/internal/panels"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/rlockotel/dashboards"
)

func main() {
	log.SetFlags(0)
	length := flag.Duration("for", 6*time.Minute, "how long the fleet works")
	flag.Parse()
	if err := run(*length); err != nil {
		log.Fatal("picture: ", err)
	}
}

func run(length time.Duration) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dashboard, err := panels.Read(dashboards.Grafana)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "picture")
	if err != nil {
		return err
	}
	programs := &programs{folder: folder}
	defer programs.end()
	server, err := programs.redis(ctx)
	if err != nil {
		return err
	}
	metrics, err := programs.example(server)
	if err != nil {
		return err
	}
	prometheus, err := programs.prometheus(ctx, metrics)
	if err != nil {
		return err
	}

	option := rueidis.ClientOption{InitAddress: []string{server}, ForceSingleClient: true}
	outsider, err := rlock.New(rlock.Config{Redis: option})
	if err != nil {
		return err
	}
	defer outsider.Close()
	redis, err := rueidis.NewClient(option)
	if err != nil {
		return err
	}
	defer redis.Close()

	span := panels.Span{From: time.Now(), Step: scrape}
	var events []panels.Event
	for i, t := range troubles {
		if err := until(ctx, span.From.Add(length*time.Duration(i+1)/time.Duration(len(troubles)+1))); err != nil {
			return err
		}
		log.Print(t.text)
		events = append(events, panels.Event{At: time.Now(), Text: t.text})
		if err := t.cause(ctx, redis, outsider); err != nil {
			return fmt.Errorf("%s: %w", t.text, err)
		}
	}
	if err := until(ctx, span.From.Add(length)); err != nil {
		return err
	}
	span.To = time.Now()

	if err := dashboard.Ask(ctx, prometheus, span); err != nil {
		return err
	}
	alerts, err := prometheus.Alerts(ctx, span)
	if err != nil {
		return err
	}
	return panels.Picture{
		Dashboard: dashboard, Span: span, Events: events, Alerts: alerts,
		Caption: "the example's four clients, as Prometheus answers the queries of the dashboard",
	}.WriteSVG(os.Stdout)
}

// troubles happen one after the other, at equal distances.
var troubles = []struct {
	text  string
	cause func(ctx context.Context, redis rueidis.Client, outsider *rlock.Client) error
}{
	{"Redis does not answer for 1.5 s, half a lease: nothing is lost", func(ctx context.Context, redis rueidis.Client, _ *rlock.Client) error {
		return silence(ctx, redis, 1500*time.Millisecond)
	}},
	{"an operator deletes the key of a lock that is held: one loss", func(ctx context.Context, redis rueidis.Client, _ *rlock.Client) error {
		return redis.Do(ctx, redis.B().Del().Key("example:forgotten").Build()).Error()
	}},
	{"a program that is not measured holds all orders for 20 s", func(ctx context.Context, _ rueidis.Client, outsider *rlock.Client) error {
		for i := range 5 {
			hold, err := outsider.NewFairLock(fmt.Sprint("example:orders:", i)).Acquire(ctx)
			if err != nil {
				return err
			}
			defer hold.Release(context.WithoutCancel(ctx))
		}
		return until(ctx, time.Now().Add(20*time.Second))
	}},
	{"Redis does not answer for 5 s, longer than a lease: the leader's lock is lost", func(ctx context.Context, redis rueidis.Client, _ *rlock.Client) error {
		return silence(ctx, redis, 5*time.Second)
	}},
}

// silence makes Redis silent for some time.
func silence(ctx context.Context, redis rueidis.Client, d time.Duration) error {
	return redis.Do(ctx, redis.B().ClientPause().Timeout(d.Milliseconds()).All().Build()).Error()
}

func until(ctx context.Context, at time.Time) error {
	select {
	case <-time.After(time.Until(at)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
