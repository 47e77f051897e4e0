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
	"github.com/go-rlock/rlock/rlock/inspect"
)

// errDeadlock gives the exit code of a deadlock that was found.
var errDeadlock = errors.New("there is a deadlock")

func (a *app) deadlocks() *cobra.Command {
	var asJSON bool
	var pause time.Duration
	cmd := &cobra.Command{
		Use:   "deadlocks [PATTERN]",
		Short: "Find owners that wait for each other's locks",
		Long: `deadlocks searches the holders and the waiters of all locks, over all processes, for
cycles: the first owner holds a lock that the second waits for, and waits for one that the
second holds. The locks are inspected one after the other, so a cycle counts only if two
inspections show it with the same waits and the same holders.

Redis shows one waiter of each process for a lock. So deadlocks asks the processes that hold
locks for all their holds and waits. They have a second to answer. For those that do not
answer (Config.NoAnswers, an older rlock, a process that hangs, Redisson), the graph has the
state in Redis, and the output names them. Semaphores are left out.

EXIT CODES
  0 if there is no deadlock; 1 if there is one; 2 and 69 as in rlock --help.`,
		Example: `  rlock deadlocks
  rlock deadlocks --json 'orders:*' || ./alert.sh`,
		Args: onePattern,
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern := strings.Join(args, "")
			return a.with(cmd, func(client *rlock.Client) error {
				cycles, seen, err := findDeadlocks(cmd.Context(), client, pattern, pause)
				if err != nil {
					return err
				}
				write := writeDeadlocks
				if asJSON {
					write = writeDeadlocksJSON
				}
				if err := write(a.out, cycles, seen); err != nil {
					return err
				}
				if len(cycles) > 0 {
					return fault{errDeadlock, errFailed}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	cmd.Flags().DurationVar(&pause, "pause", 100*time.Millisecond, "time between the two inspections")
	return cmd
}

// findDeadlocks returns the cycles that two inspections have found, and the view of the first.
func findDeadlocks(ctx context.Context, client *rlock.Client, pattern string, pause time.Duration) ([]deadlock.Cycle, deadlock.View, error) {
	locks, err := survey.Held(ctx, client, pattern)
	if err != nil {
		return nil, deadlock.View{}, err
	}
	seen, err := deadlock.Look(ctx, client, locks)
	cycles := deadlock.Find(seen)
	if err != nil || len(cycles) == 0 {
		return nil, seen, err
	}
	select {
	case <-time.After(pause):
	case <-ctx.Done():
		return nil, seen, ctx.Err()
	}
	again, errs := survey.Inspect(ctx, client, deadlock.Locks(cycles))
	if err := errors.Join(errs...); err != nil {
		return nil, seen, err
	}
	now, err := deadlock.Look(ctx, client, again)
	return deadlock.Still(cycles, deadlock.Find(now)), seen, err
}

// A jsonWait is the JSON form of a wait.
type jsonWait struct {
	Lock            string `json:"lock"`
	Waiter          string `json:"waiter"`
	WaiterProcess   string `json:"waiter_process,omitempty"`
	WaiterGoroutine uint64 `json:"waiter_goroutine,omitempty"`
	WaiterMS        int64  `json:"waiter_ms,omitempty"`
	WaiterSite      string `json:"waiter_site,omitempty"`
	Holder          string `json:"holder"`
	HolderProcess   string `json:"holder_process,omitempty"`
	HolderGoroutine uint64 `json:"holder_goroutine,omitempty"`
	HolderMS        int64  `json:"holder_ms,omitempty"`
	HolderSite      string `json:"holder_site,omitempty"`
}

// A jsonClient is the JSON form of a client that did not answer.
type jsonClient struct {
	Client  string `json:"client"`
	Process string `json:"process,omitempty"`
}

// jsonDeadlocks is the JSON form of the result.
type jsonDeadlocks struct {
	Deadlocks [][]jsonWait `json:"deadlocks"`
	Asked     int          `json:"asked"`
	Silent    []jsonClient `json:"silent"`
	Unasked   string       `json:"unasked,omitempty"` // why no client could be asked
}

func writeDeadlocksJSON(out io.Writer, cycles []deadlock.Cycle, seen deadlock.View) error {
	all := jsonDeadlocks{Deadlocks: make([][]jsonWait, 0, len(cycles)), Asked: seen.Asked, Silent: make([]jsonClient, 0, len(seen.Silent))}
	for _, cycle := range cycles {
		waits := make([]jsonWait, 0, len(cycle))
		for _, wait := range cycle {
			w, h := wait.Waiter, wait.Holder
			waits = append(waits, jsonWait{
				wait.Lock,
				w.Owner, view.Process(w.Process), w.Goroutine, w.Age.Milliseconds(), w.Site.String(),
				h.Owner, view.Process(h.Process), h.Goroutine, h.Age.Milliseconds(), h.Site.String(),
			})
		}
		all.Deadlocks = append(all.Deadlocks, waits)
	}
	for _, silent := range seen.Silent {
		all.Silent = append(all.Silent, jsonClient{silent.ID, view.Process(silent.Process)})
	}
	if seen.Unasked != nil {
		all.Unasked = seen.Unasked.Error()
	}
	return json.NewEncoder(out).Encode(all)
}

func writeDeadlocks(out io.Writer, cycles []deadlock.Cycle, seen deadlock.View) error {
	var text strings.Builder
	for i, cycle := range cycles {
		fmt.Fprintf(&text, "deadlock %d of %d:\n", i+1, len(cycles))
		for _, w := range cycle {
			fmt.Fprintf(&text, "  %s waits for %s, which %s holds%s\n", numbered(w.Waiter), view.Printable(w.Lock), numbered(w.Holder), ages(w))
		}
	}
	if len(cycles) == 0 {
		text.WriteString("no deadlock is seen\n")
	}
	if seen.Unasked != nil {
		fmt.Fprintf(&text, "no client could be asked: %v\n", seen.Unasked)
	}
	if len(seen.Silent) > 0 {
		fmt.Fprintf(&text, "%d of %d clients that hold locks did not answer; for these only the state in Redis is known:\n", len(seen.Silent), seen.Asked)
		for _, silent := range seen.Silent {
			fmt.Fprintf(&text, "  %s\n", view.Owner(silent.ID, silent.Process, false))
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// ages returns the times and sites of the wait and the hold, as far as the clients have told them.
func ages(w deadlock.Wait) string {
	var parts []string
	for _, side := range []struct {
		does string
		deadlock.Party
	}{{"waiting", w.Waiter}, {"held", w.Holder}} {
		if side.Since.IsZero() {
			continue
		}
		part := side.does + " for " + view.Rounded(max(side.Age, 0))
		if side.Site != (inspect.Site{}) {
			part += " at " + view.Printable(side.Site.String())
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, "; ") + ")"
}

// numbered names the party by its process, and by the goroutine or the owner's number there.
func numbered(p deadlock.Party) string {
	name := view.Owner(p.Owner, p.Process, p.Foreign)
	if p.Goroutine != 0 {
		return fmt.Sprintf("%s goroutine %d", name, p.Goroutine)
	}
	if _, number, ok := strings.Cut(p.Owner, ":"); ok {
		name += " owner " + view.Printable(number)
	}
	return name
}
