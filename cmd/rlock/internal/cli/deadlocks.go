package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-rlock/rlock/cmd/rlock/internal/deadlock"
	"github.com/go-rlock/rlock/cmd/rlock/internal/survey"
	"github.com/go-rlock/rlock/cmd/rlock/internal/view"
	"github.com/go-rlock/rlock/rlock"
)

// errDeadlock gives the exit code of a deadlock that was found.
var errDeadlock = errors.New("there is a deadlock")

func (a *app) deadlocks() *cobra.Command {
	var asJSON bool
	var pause time.Duration
	cmd := &cobra.Command{
		Use:   "deadlocks [PATTERN]",
		Short: "Find owners that wait for each other's locks",
		Long: `deadlocks looks for cycles among the holders and the waiters of all locks, over all
processes: the first holds a lock that the second waits for, and waits for one that the
second holds. The locks are inspected one after the other, so that a cycle counts if it is
seen twice with the same tickets and the same holders.

It finds what Redis shows. A client has one place in a queue, for the first of its
waiters; a handle of Acquire is an owner of its own, unless its context carries one; a
client of Redisson has no place. Semaphores are left out.

EXIT CODES
  0 if there is no deadlock; 1 if there is one; 2 and 69 as in rlock --help.`,
		Example: `  rlock deadlocks
  rlock deadlocks --json 'orders:*' || page-somebody`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern := strings.Join(args, "")
			return a.with(cmd, func(client *rlock.Client) error {
				cycles, err := findDeadlocks(cmd.Context(), client, pattern, pause)
				if err != nil {
					return err
				}
				if err := writeDeadlocks(a.out, cycles, asJSON); err != nil {
					return err
				}
				if len(cycles) > 0 {
					return fault{errDeadlock, errFailed}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON array a deadlock")
	cmd.Flags().DurationVar(&pause, "pause", 100*time.Millisecond, "how long to wait between the two looks")
	return cmd
}

// findDeadlocks returns the cycles that are there at two looks.
func findDeadlocks(ctx context.Context, client *rlock.Client, pattern string, pause time.Duration) ([]deadlock.Cycle, error) {
	locks, err := survey.Held(ctx, client, pattern)
	cycles := deadlock.Find(locks)
	if err != nil || len(cycles) == 0 {
		return nil, err
	}
	select {
	case <-time.After(pause):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var again []rlock.Inspection
	for _, name := range deadlock.Locks(cycles) {
		lock, err := client.Inspect(ctx, name)
		if err != nil {
			return nil, err
		}
		again = append(again, lock)
	}
	return deadlock.Still(cycles, deadlock.Find(again)), nil
}

// A jsonWait is a wait as it is in JSON.
type jsonWait struct {
	Lock          string `json:"lock"`
	Waiter        string `json:"waiter"`
	WaiterProcess string `json:"waiter_process,omitempty"`
	Holder        string `json:"holder"`
	HolderProcess string `json:"holder_process,omitempty"`
}

func writeDeadlocks(out io.Writer, cycles []deadlock.Cycle, asJSON bool) error {
	for i, cycle := range cycles {
		if asJSON {
			waits := make([]jsonWait, 0, len(cycle))
			for _, w := range cycle {
				waits = append(waits, jsonWait{w.Lock, w.Waiter.Owner, process(w.Waiter.Process), w.Holder.Owner, process(w.Holder.Process)})
			}
			if err := json.NewEncoder(out).Encode(waits); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintf(out, "deadlock %d of %d:\n", i+1, len(cycles)); err != nil {
			return err
		}
		for _, w := range cycle {
			_, err := fmt.Fprintf(out, "  %s waits for %s, which %s holds\n",
				numbered(w.Waiter.Owner, w.Waiter.Process, w.Waiter.Guest), view.Printable(w.Lock), numbered(w.Holder.Owner, w.Holder.Process, w.Holder.Guest))
			if err != nil {
				return err
			}
		}
	}
	if len(cycles) == 0 && !asJSON {
		_, err := fmt.Fprintln(out, "no deadlock is seen in Redis")
		return err
	}
	return nil
}

func process(p *rlock.Process) string {
	if p == nil {
		return ""
	}
	return p.String()
}

// numbered names an owner by its process and its number there.
func numbered(owner string, p *rlock.Process, guest bool) string {
	name := view.Owner(owner, p, guest)
	if _, number, ok := strings.Cut(owner, ":"); ok {
		name += " owner " + view.Printable(number)
	}
	return name
}
