// Observed is a small fleet whose locks are measured:
//
//	go run -C examples/observed .
//	go run -C examples/observed . -serve 127.0.0.1:9464
//
// Four clients, as four processes would have them, lock orders, a report, a price list
// and a partner's connections for three seconds. Then the program prints the metrics as
// Prometheus would collect them. With -serve it goes on until it is interrupted, and serves
// them at /metrics.
//
// On the way an operator unlocks held locks by force, a worker forgets to unlock for a
// while, and others do not wait that long: look for lock_client_lost_total, for the result
// timeout, and for the lines of the log. docs/dashboard.svg is what the dashboard of rlockotel
// makes of it.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/go-rlock/rlock/examples/internal/embedded"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/rlockotel"
)

func main() {
	log.SetFlags(0)
	addr := flag.String("serve", "", "serve the metrics at this `address` until interrupted")
	flag.Parse()
	if err := run(*addr); err != nil {
		log.Fatal("observed: ", err)
	}
}

func run(addr string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	redis, stopRedis, err := embedded.Redis()
	if err != nil {
		return err
	}
	defer stopRedis()

	// Metrics go from rlock to OpenTelemetry, and from there to a registry of Prometheus.
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	if err != nil {
		return err
	}
	observer, err := rlockotel.NewObserver(
		rlockotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))),
		rlockotel.WithLockClass(classOf),
	)
	if err != nil {
		return err
	}
	if addr != "" {
		if err := serve(addr, registry); err != nil {
			return err
		}
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
	}

	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	var machines []*machine
	for i := range 4 {
		client, err := rlock.New(rlock.Config{
			Redis:       redis,
			Observer:    observer,
			Lease:       3 * time.Second,
			LongHold:    time.Second,
			LongWait:    800 * time.Millisecond,
			RecordSites: true,
			Logger:      logger.With("machine", i),
		})
		if err != nil {
			return err
		}
		defer client.Close()
		machines = append(machines, &machine{client: client})
	}
	fmt.Println("=> four machines work")
	held := time.AfterFunc(time.Second, func() {
		for i, m := range machines {
			for _, h := range inspect.Of(m.client).Held() {
				fmt.Printf("=> machine %d holds %s (%s) since %v\n", i, h.Name, h.Kind, time.Since(h.Since).Round(time.Millisecond))
			}
		}
	})
	defer held.Stop()
	acquired := work(ctx, machines)
	if addr != "" {
		return nil
	}

	fmt.Println("=> the metrics, without the buckets of the histograms")
	measured, err := show(registry)
	if err != nil {
		return err
	}
	if measured != acquired {
		return fmt.Errorf("the workers have counted %d locks, and the metrics %d", acquired, measured)
	}
	fmt.Printf("=> the workers have counted %d locks, and so have the metrics\n", acquired)
	return nil
}

// classOf maps the names of locks to a few values: orders:17 is one of the orders.
func classOf(name string) string {
	class, _, _ := strings.Cut(strings.TrimPrefix(name, "example:"), ":")
	return class
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// serve serves the metrics until the program ends. A port of 0 is a free one.
func serve(addr string, registry *prometheus.Registry) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Printf("=> metrics at http://%s/metrics\n", listener.Addr())
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	go func() { log.Fatal("observed: ", http.Serve(listener, nil)) }()
	return nil
}

// show prints the metrics, and returns how many locks they say were acquired.
func show(registry *prometheus.Registry) (acquired int, err error) {
	families, err := registry.Gather()
	if err != nil {
		return 0, err
	}
	var text strings.Builder
	for _, family := range families {
		if family.GetName() == "lock_client_acquired_total" {
			for _, m := range family.GetMetric() {
				if m.GetLabel()[0].GetValue() != string(rlock.ByNesting) {
					acquired += int(m.GetCounter().GetValue())
				}
			}
		}
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			return 0, err
		}
	}
	for line := range strings.Lines(text.String()) {
		if !strings.Contains(line, "_bucket{") && !strings.HasPrefix(line, "#") {
			fmt.Print("   ", line)
		}
	}
	return acquired, nil
}
