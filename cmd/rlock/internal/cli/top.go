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
	flags.DurationVarP(&options.Interval, "interval", "i", time.Second, "time between two inspections")
	flags.IntVarP(&options.Count, "count", "c", 0, "end after `N` inspections (default: without end)")
	flags.Var(&options.Order, "sort", "sort by waiters, name, rate or seen")
	flags.IntVar(&limit, "limit", 500, "inspect at most `N` locks at a time")
	flags.BoolVar(&plain, "plain", false, "write lines, as without a terminal")
	flags.BoolVar(&asJSON, "json", false, "one JSON object per inspection")
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

const topHelp = `top inspects the locks every second and shows those with the most waiters first, with their
holders. PATTERN is a glob, as for the Redis command KEYS: "orders:*"; quote it. In a terminal
keys sort, filter, show one lock, and pause; "?" lists them. Without a terminal top writes the
table after each inspection.

  SEEN     the time for which all inspections have shown the same holder: the lock is held
           for at least that time
  LEASE    the time left unless the lock is renewed
  WAITING  the number of clients that wait
  NEW/S    new holders per second, over the last ten inspections: a lower bound, since a lock
           that is taken and released between two inspections is not seen

Losses are not shown: in Redis the end of a lease looks like a release.

An inspection reads at most ten times --limit names, and inspects --limit locks: those with
waiters first, then those whose last inspection is the oldest. The output says how many are
left out.

While Redis does not answer, top shows the error, its time and the last state, and continues.

EXIT CODES
  0; 69 if Redis cannot be reached at the start, or the last inspection failed; 1 if it left
  out only locks whose keys, or those of their queues, have other data; 2 as in rlock --help.`
