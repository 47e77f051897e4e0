package cli

import (
	"cmp"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-rlock/rlock/cmd/rlock/internal/survey"
	"github.com/go-rlock/rlock/cmd/rlock/internal/view"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/redisson"
)

func (a *app) ls() *cobra.Command {
	var asJSON, onlyWaited, watch bool
	write := func(ctx context.Context, out io.Writer, client *rlock.Client, pattern string) error {
		inspections, failed := survey.Held(ctx, client, pattern)
		if failed != nil && len(inspections) == 0 {
			return failed
		}
		if onlyWaited {
			inspections = slices.DeleteFunc(inspections, func(i inspect.Lock) bool { return i.Waiting == 0 && i.Foreign <= 0 })
		}
		synchronizers, unread := survey.Synchronizers(ctx, client, pattern)
		if onlyWaited {
			synchronizers = slices.DeleteFunc(synchronizers, func(s redisson.State) bool { return s.Listening == 0 })
		}
		return cmp.Or(list(out, inspections, asJSON), listSynchronizers(out, synchronizers, asJSON), failed, unread)
	}
	cmd := &cobra.Command{
		Use:   "ls [PATTERN]",
		Short: "List the locks that are held",
		Long: `ls lists the locks that clients of rlock and of Redisson hold, by name. PATTERN is a glob,
as for the Redis command KEYS: "orders:*"; quote it. The keyspace is read in pages, so that
the server is not blocked; that takes a while if it is large.

Redisson's semaphores and latches follow in a table of their own, with the permits that are
free and taken, or the count: those with permits taken that have leases, and those that
clients listen for. In Redis the others are any numbers: see rlock show.

With --watch the table is printed anew each second, also after an error. It reads the whole
keyspace each time: for a look at many locks use rlock web.

DEPTH is the number of times that the owner has locked it, LEASE the time left unless it is
renewed, WAITING the number of clients that wait.

EXIT CODES
  0 also if there is no lock; 1 if a key with the name of a lock, or of its queue, has other
  data: the error names it, and the other locks are listed; 2 and 69 as in rlock --help.`,
		Example: `  rlock ls 'orders:*'
  rlock ls --watch --waiting
  rlock ls --json | jq -r 'select(.waiting > 10).name'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern := strings.Join(args, "")
			return a.with(cmd, func(client *rlock.Client) error {
				if watch {
					return a.again(cmd.Context(), func(out io.Writer) error { return write(cmd.Context(), out, client, pattern) })
				}
				return write(cmd.Context(), a.out, client, pattern)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	cmd.Flags().BoolVar(&onlyWaited, "waiting", false, "only locks that clients wait for")
	cmd.Flags().BoolVar(&watch, "watch", false, "print the table anew each second")
	cmd.Args = cobra.MatchAll(exclusive(cmd, "watch", "json"), onePattern)
	return cmd
}

// again writes once a second, in a terminal from the first line of the screen, until the command is
// ended. It goes on after an error.
func (a *app) again(ctx context.Context, write func(out io.Writer) error) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	top, end := "", "\n"
	if out, ok := a.out.(*os.File); ok && isTerminal(out) {
		top, end = "\x1b[H\x1b[2J", ""
	}
	for {
		var text strings.Builder
		text.WriteString(top)
		err := write(&text)
		if _, failed := io.WriteString(a.out, text.String()+end); failed != nil {
			return fault{failed, errFailed}
		}
		if err != nil {
			a.log("%v", sorted(err))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func list(out io.Writer, inspections []inspect.Lock, asJSON bool) error {
	if asJSON {
		for _, i := range inspections {
			if err := view.WriteJSON(out, i); err != nil {
				return err
			}
		}
		return nil
	}
	table := view.NewTable(out)
	for _, i := range inspections {
		table.Add(i)
	}
	return table.Flush()
}

func listSynchronizers(out io.Writer, all []redisson.State, asJSON bool) error {
	if !asJSON {
		return view.WriteSynchronizers(out, all)
	}
	for _, s := range all {
		if err := view.WriteSynchronizerJSON(out, s); err != nil {
			return err
		}
	}
	return nil
}
