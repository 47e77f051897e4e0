package once_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/once"
)

// BenchmarkCrowds has many callers of several clients ask at once for work of 200 ms, directly and
// with Redis 0.5 ms away, and reports when the last one has the value and how many commands Redis
// was sent, with those of the connections:
//
//	go test -run - -bench Crowds -benchtime 7x ./rlock/once
func BenchmarkCrowds(b *testing.B) {
	for name, c := range map[string]struct {
		clients, callers int
		away             time.Duration
	}{
		"5x100":              {5, 100, 0},
		"5x100,0.5ms away":   {5, 100, 500 * time.Microsecond},
		"100x5,0.5ms away":   {100, 5, 500 * time.Microsecond},
		"alone":              {1, 1, 0},
		"alone,0.5 ms away ": {1, 1, 500 * time.Microsecond},
	} {
		b.Run(name, func(b *testing.B) {
			server := redistest.Standalone(b)
			net, err := network.Listen(server.Addr())
			if err != nil {
				b.Fatal(err)
			}
			defer net.Close()
			net.SetRoundTrip(c.away)
			option := rueidis.ClientOption{InitAddress: []string{net.Addr()}}
			if c.away == 0 {
				option.InitAddress = []string{server.Addr()}
			}
			var groups []*once.Group
			for range c.clients {
				locks, err := rlock.New(rlock.Config{Redis: option})
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = locks.Close() }()
				g := once.New(locks, once.Options{})
				defer g.Close()
				groups = append(groups, g)
			}
			work := 200 * time.Millisecond
			if c.clients == 1 {
				work = 0
			}
			round := func() {
				var wg sync.WaitGroup
				for _, g := range groups {
					for range c.callers {
						wg.Go(func() {
							_, _, err := g.Do(context.Background(), key, func(context.Context) ([]byte, error) {
								time.Sleep(work)
								return []byte("it"), nil
							})
							if err != nil {
								b.Error(err)
							}
						})
					}
				}
				wg.Wait()
			}
			round() // the server knows the scripts then
			var last time.Duration
			sent := func() int64 {
				info, err := server.Client(b).Do(context.Background(), server.Client(b).B().Info().Section("commandstats").Build()).ToString()
				if err != nil {
					b.Fatal(err)
				}
				return callsOf(info)
			}
			before := sent()
			for b.Loop() {
				began := time.Now()
				round()
				last += time.Since(began)
				time.Sleep(50 * time.Millisecond)
			}
			b.ReportMetric(float64(last.Microseconds())/float64(b.N)/1000, "ms-last")
			b.ReportMetric(float64(sent()-before)/float64(b.N), "commands")
		})
	}
}

// callsOf sums the commands that clients send: a script's own commands are left out.
func callsOf(info string) (n int64) {
	for line := range strings.Lines(info) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "cmdstat_"), ":")
		switch name {
		case "evalsha", "eval", "subscribe", "unsubscribe", "ping", "client|tracking", "client|trackinginfo", "script|exists", "get":
			calls, _, _ := strings.Cut(strings.TrimPrefix(rest, "calls="), ",")
			c, _ := strconv.ParseInt(calls, 10, 64)
			n += c
		}
	}
	return n
}
