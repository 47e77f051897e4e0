package cli

import (
	"context"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/go-rlock/rlock/cmd/rlock/internal/top"
	"github.com/go-rlock/rlock/rlock"
)

// shortestInterval keeps top from being a load test.
const shortestInterval = 50 * time.Millisecond

func (a *app) top() *cobra.Command {
	var (
		options       = top.Options{Order: top.ByWaiters}
		plain, asJSON bool
		limit         int
	)
	cmd := &cobra.Command{
		Use:   "top [PATTERN]",
		Short: "Watch the locks: contention, holders, hand-overs",
		Long:  topHelp,
		Example: `  rlock top 'orders:*'
  rlock top --plain --interval 10s >> locks.log
  rlock top --json --count 1 | jq '.locks[] | select(.waiting > 10).name'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case options.Interval < shortestInterval:
				return wrongUsage(cmd, "--interval %v: at least %v", options.Interval, shortestInterval)
			case options.Count < 0:
				return wrongUsage(cmd, "--count %d: 0 is without end", options.Count)
			case limit < 1:
				return wrongUsage(cmd, "--limit %d: at least 1", limit)
			}
			options.Pattern = strings.Join(args, "")
			return a.with(cmd, func(client *rlock.Client) error {
				watcher := top.NewWatcher(client, limit)
				write := top.WritePlain
				if asJSON {
					write = top.WriteJSON
				}
				out, ok := a.out.(*os.File)
				if plain || asJSON || !ok || !isTerminal(out) || !isTerminal(a.in) {
					return top.Print(cmd.Context(), watcher, options, func(look top.Look, failing time.Time) error {
						return write(a.out, look, options.Order, failing)
					})
				}
				option, err := a.address.Option(cmd.Flags())
				if err != nil {
					return err
				}
				options.Server = strings.Join(option.InitAddress, ",")
				return show(cmd.Context(), a.in, out, top.NewModel(watcher, options))
			})
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.DurationVarP(&options.Interval, "interval", "i", time.Second, "time between two looks")
	flags.IntVarP(&options.Count, "count", "c", 0, "end after `N` looks (default: without end)")
	flags.Var(&options.Order, "sort", "sort by waiters, name, rate or seen")
	flags.IntVar(&limit, "limit", 500, "inspect `N` locks at most for a look")
	flags.BoolVar(&plain, "plain", false, "write lines, as without a terminal")
	flags.BoolVar(&asJSON, "json", false, "one JSON object a look")
	cmd.Args = cobra.MatchAll(exclusive(cmd, "plain", "json"), onePattern)
	return cmd
}

// show shows the screen until the user quits.
func show(ctx context.Context, in, out *os.File, model *top.Model) error {
	if _, err := tea.NewProgram(model, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out)).Run(); err != nil {
		return fault{err, errFailed}
	}
	return model.Err()
}

const topHelp = `top looks at the locks again and again: those with the most waiters first, with their
holders. PATTERN is a glob, as of the Redis command KEYS: "orders:*"; quote it. In a terminal it
has keys, which it shows, to sort, to filter, to look into a lock, and to pause. Without a
terminal it writes the table after each look.

  SEEN     for how long all looks have shown the same holder: the lock is held for this
           time at least
  LEASE    for how long the lock is held if nobody renews it
  WAITING  clients that wait
  NEW/S    holders a second that were not there at the look before, over the last ten
           looks: a lower bound, since what is taken and released between two looks is not
           seen

Losses are not shown: in Redis a lease that ends looks like a lock that was released.

A look reads the names of at most ten times --limit locks, and inspects --limit of them: those with
waiters first, then those that it has not inspected for the longest time. It says how many are
left out.

While Redis does not answer top shows the error, since when, and what it saw last, and
goes on.

EXIT CODES
  0; 69 if Redis cannot be reached at the start, or the last look failed; 1 if it failed
  for a key that holds something else than a lock or its queue, and showed the others; 2
  as in rlock --help.`
