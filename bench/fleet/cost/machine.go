package cost

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
)

// sleeping measures the pause of a polling client between two tries.
func (b *bench) sleeping() {
	for range rounds {
		all := make([]time.Duration, sleeps)
		for i := range all {
			began := time.Now()
			time.Sleep(5 * time.Millisecond)
			all[i] = time.Since(began)
		}
		slices.Sort(all)
		b.all[&b.table.Sleep5ms] = append(b.all[&b.table.Sleep5ms], all[len(all)/2])
	}
}

// pass measures hand-offs inside a process.
func (b *bench) pass() {
	client, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{b.addr}}})
	if b.failed(err) {
		return
	}
	const goroutines, each = 32, 2000
	for range rounds {
		began := time.Now()
		var all sync.WaitGroup
		for range goroutines {
			all.Go(func() {
				l := client.NewLock("fleet-pass")
				for range each {
					b.failed(errors.Join(l.Lock(b.ctx), l.Unlock(b.ctx)))
				}
			})
		}
		all.Wait()
		b.all[&b.table.Pass] = append(b.all[&b.table.Pass], time.Since(began)/(goroutines*each))
	}
	b.failed(client.Close())
}

// processor returns the model of the processor, "" where that is not known.
func processor() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
