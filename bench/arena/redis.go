package arena

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

const redisServer = "redis-server"

// StartRedis starts program, a redis-server by its name or path, on a free port of the
// loopback, in memory only, and returns its address when it answers. The caller stops it.
func StartRedis(ctx context.Context, program string) (addr string, stop func(), err error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", nil, fmt.Errorf("arena: no %s to start: %w: install it, or say -addr", program, err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("arena: %w", err)
	}
	addr = listener.Addr().String()
	_ = listener.Close()
	_, port, _ := net.SplitHostPort(addr)

	dir, err := os.MkdirTemp("", "rlock-bench-redis-")
	if err != nil {
		return "", nil, fmt.Errorf("arena: %w", err)
	}
	var output bytes.Buffer
	server := exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--dir", dir,
		"--save", "", "--appendonly", "no", "--maxclients", "20000")
	server.Stdout, server.Stderr = &output, &output
	server.SysProcAttr = Ours()
	if err := server.Start(); err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, fmt.Errorf("arena: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = server.Wait()
		close(exited)
	}()
	stop = func() {
		_ = server.Process.Kill() // there is nothing to save
		<-exited
		_ = os.RemoveAll(dir)
	}
	if err := awaitPort(ctx, addr, exited); err != nil {
		stop()
		return "", nil, fmt.Errorf("arena: redis-server: %w:\n%s", err, output.String())
	}
	return addr, stop, nil
}

func awaitPort(ctx context.Context, addr string, exited <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, setUp)
	defer cancel()
	for {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-exited:
			return fmt.Errorf("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("it does not listen: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

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
