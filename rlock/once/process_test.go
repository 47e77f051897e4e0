//go:build unix

package once_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
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
	locks, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{addr}}, Lease: 4 * time.Second})
	if err != nil {
		panic(err)
	}
	group := once.New(locks, once.Options{})
	in := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	_, _ = in.ReadString('\n')
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			value, _, err := group.Do(context.Background(), key, func(context.Context) ([]byte, error) {
				fmt.Println("runs")
				if os.Getenv("ONCE_STOPS") != "" {
					_, _ = in.ReadString('\n') // the parent kills or stops it meanwhile
				}
				return fmt.Append(nil, "value of ", os.Getpid()), nil
			})
			fmt.Println("got", string(value), err)
		})
	}
	wg.Wait()
	fmt.Println("done")
}

// A worker is such a process. It ends its work with a line, also if that is written once more.
type worker struct{ *redistest.Talk }

func newWorker(t *testing.T, addr string, env ...string) worker {
	t.Helper()
	command, err := redistest.Self("ONCE_WORKER=" + addr)
	require.NoError(t, err)
	command.Env = append(command.Env, env...)
	talk, err := redistest.Converse(command)
	require.NoError(t, err)
	t.Cleanup(talk.Kill)
	w := worker{talk}
	w.until(t, "ready")
	return w
}

// until returns the lines before one that begins so.
func (w worker) until(t *testing.T, prefix string) (before []string) {
	t.Helper()
	for {
		line, err := w.Hear(redistest.Hang)
		require.NoError(t, err, "%q", before)
		if strings.HasPrefix(line, prefix) {
			return before
		}
		before = append(before, line)
	}
}

// The process that runs is killed, or stopped past its lease: one other runs, and all that live
// have its value, also the callers of the one that was stopped, which ends its work and stores
// nothing.
func TestProcessesThatDieOrStop(t *testing.T) {
	redistest.Slow(t)
	server := redistest.Standalone(t)
	for _, stops := range []bool{false, true} {
		t.Run(fmt.Sprint("stops: ", stops), func(t *testing.T) {
			first := newWorker(t, server.Addr(), "ONCE_STOPS=1")
			others := []worker{newWorker(t, server.Addr()), newWorker(t, server.Addr())}
			require.NoError(t, first.Say(""))
			first.until(t, "runs")
			for _, w := range others {
				require.NoError(t, w.Say(""))
			}
			if stops {
				require.NoError(t, first.Suspend())
			} else {
				first.Kill()
			}
			live, runs := others, 0
			values := map[string]int{}
			count := func(w worker) {
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
			if stops {
				require.NoError(t, first.Resume())
				require.NoError(t, first.Say(""))
				live = append(live, first)
				count(first)
			}
			assert.Equal(t, 1, runs, "one other runs")
			assert.Len(t, values, 1, "%v", values)
			for line, n := range values {
				assert.Equal(t, workers*len(live), n, line)
				assert.NotContains(t, line, fmt.Sprint(first.ID()))
			}
		})
	}
}
