package cli

import (
	"github.com/spf13/cobra"

	"github.com/go-rlock/rlock/cmd/rlock/internal/survey"
	"github.com/go-rlock/rlock/cmd/rlock/internal/view"
	"github.com/go-rlock/rlock/rlock"
)

func (a *app) show() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a lock, its holders and its queue",
		Long: `show prints the state of one lock in Redis: its holders with host and process id, the lease,
and the waiters in their order. It changes nothing. Of Redisson's semaphores and latches it
prints the permits that are free, those with a lease that are taken, or the count.

A process is found by the name of its connection in CLIENT LIST. Clients of Redisson, and
clients without such a name, are shown by their owner only; so are all clients if the user
may not execute that command.

EXIT CODES
  0 also if the lock is free; 1 if the name is a key with other data; 2 and 69 as in
  rlock --help.`,
		Example: `  rlock show orders:42
  rlock show --json orders:42 | jq .holders[0].host`,
		Args:              oneName,
		ValidArgsFunction: a.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd, func(client *rlock.Client) error {
				i, synchronizer, err := survey.Lock(cmd.Context(), client, args[0])
				switch {
				case err != nil:
					return err
				case synchronizer != nil && asJSON:
					return view.WriteSynchronizerJSON(a.out, *synchronizer)
				case synchronizer != nil:
					return view.WriteSynchronizer(a.out, *synchronizer)
				case asJSON:
					return view.WriteJSON(a.out, i)
				}
				return view.WriteLock(a.out, i)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}
