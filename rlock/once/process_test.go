//go:build unix

package once_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/once"
)

const workers = 20 // callers of each process

func init() { work = askAndTell }

// askAndTell is a process that asks with some callers at a time, and says what each of them gets.
func askAndTell(addr string) {
	option := rueidis.ClientOption{InitAddress: []string{addr}}
	locks, err := rlock.New(rlock.Config{Redis: option, Lease: 4 * time.Second})
	if err != nil {
		panic(err)
	}
	redis, err := rueidis.NewClient(option)
	if err != nil {
		panic(err)
	}
	group := once.New(locks, redis, once.Options{})
	in := bufio.NewScanner(os.Stdin)
	fmt.Println("ready")
	in.Scan()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			value, _, err := group.Do(context.Background(), key, func(context.Context) ([]byte, error) {
				fmt.Println("runs")
				if os.Getenv("ONCE_STOPS") != "" {
					in.Scan() // the parent kills or stops it meanwhile
				}
				return fmt.Append(nil, "value of ", os.Getpid()), nil
			})
			fmt.Println("got", string(value), err)
		})
	}
	wg.Wait()
	fmt.Println("done")
}

// A worker is such a process, and the lines that it has printed.
type worker struct {
	*exec.Cmd
	lines chan string
	begin func()
	end   func() // it ends its work, also if that is done once more
}

func newWorker(t *testing.T, addr string, env ...string) *worker {
	t.Helper()
	w := &worker{Cmd: exec.Command(os.Args[0]), lines: make(chan string, 1000)}
	w.Env = append(append(os.Environ(), "ONCE_WORKER="+addr), env...)
	in, err := w.StdinPipe()
	require.NoError(t, err)
	out, err := w.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, w.Start())
	w.begin = func() { fmt.Fprintln(in) }
	w.end = func() { _ = in.Close() }
	go func() {
		defer close(w.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			w.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = w.Process.Kill()
		_ = w.Wait()
	})
	require.Equal(t, "ready", <-w.lines)
	return w
}

// until returns the lines before one that begins so.
func (w *worker) until(t *testing.T, prefix string) (before []string) {
	t.Helper()
	for {
		select {
		case line, ok := <-w.lines:
			if !ok || strings.HasPrefix(line, prefix) {
				require.True(t, ok, "it has ended: %q", before)
				return before
			}
			before = append(before, line)
		case <-time.After(time.Minute):
			require.FailNow(t, "it hangs", "%q", before)
		}
	}
}

// The process that runs is killed, or stopped past its lease: one other runs, and all that live have its value, also the
// callers of the one that was stopped, which ends its work and stores nothing.
func TestProcessesThatDieOrStop(t *testing.T) {
	redistest.Slow(t)
	server := redistest.Standalone(t)
	for name, signal := range map[string]syscall.Signal{"kill -9": syscall.SIGKILL, "SIGSTOP": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			first := newWorker(t, server.Addr(), "ONCE_STOPS=1")
			others := []*worker{newWorker(t, server.Addr()), newWorker(t, server.Addr())}
			first.begin()
			first.until(t, "runs")
			for _, w := range others {
				w.begin()
			}
			require.NoError(t, first.Process.Signal(signal))
			live, runs := others, 0
			values := map[string]int{}
			count := func(w *worker) {
				for _, line := range w.until(t, "done") {
					if line == "runs" {
						runs++
					} else {
						values[line]++
					}
				}
			}
			for _, w := range others {
				count(w)
			}
			if signal == syscall.SIGSTOP {
				require.NoError(t, first.Process.Signal(syscall.SIGCONT))
				first.begin()
				live = append(live, first)
				count(first)
			}
			assert.Equal(t, 1, runs, "one other runs")
			assert.Len(t, values, 1, "%v", values)
			for line, n := range values {
				assert.Equal(t, workers*len(live), n, line)
				assert.NotContains(t, line, fmt.Sprint(first.Process.Pid))
			}
		})
	}
}
