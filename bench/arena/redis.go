package arena

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// A snapshot is the work of Redis so far.
type snapshot struct {
	calls map[string]int64         // of each command
	times map[string]time.Duration // their time; a script's includes its commands'
	cpu   time.Duration
}

func look(ctx context.Context, redis rueidis.Client) (snapshot, error) {
	s := snapshot{calls: make(map[string]int64), times: make(map[string]time.Duration)}
	for _, section := range []string{"commandstats", "cpu"} {
		info, err := redis.Do(ctx, redis.B().Info().Section(section).Build()).ToString()
		if err != nil {
			return s, fmt.Errorf("arena: INFO %s: %w", section, err)
		}
		for line := range strings.Lines(info) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			if command, ok := strings.CutPrefix(key, "cmdstat_"); ok {
				var micros int64
				s.calls[command], micros, err = parseStat(value)
				s.times[command] = time.Duration(micros) * time.Microsecond
			}
			if key == "used_cpu_sys" || key == "used_cpu_user" {
				var seconds float64
				seconds, err = strconv.ParseFloat(value, 64)
				s.cpu += time.Duration(seconds * float64(time.Second))
			}
			if err != nil {
				return s, fmt.Errorf("arena: INFO %s: %q: %w", section, line, err)
			}
		}
	}
	return s, nil
}

// parseStat reads the beginning of a line of INFO commandstats: "calls=1,usec=2,...".
func parseStat(value string) (calls, micros int64, err error) {
	_, err = fmt.Sscanf(value, "calls=%d,usec=%d", &calls, &micros)
	return calls, micros, err
}

// since returns the work between before and s.
func (s snapshot) since(before snapshot) snapshot {
	d := snapshot{calls: make(map[string]int64), times: make(map[string]time.Duration), cpu: s.cpu - before.cpu}
	for command, calls := range s.calls {
		if n := calls - before.calls[command]; n > 0 {
			d.calls[command] = n
			d.times[command] = s.times[command] - before.times[command]
		}
	}
	return d
}
