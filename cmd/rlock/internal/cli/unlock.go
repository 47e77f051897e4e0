package cli

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/go-rlock/rlock/cmd/rlock/internal/view"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

func (a *app) unlock() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "unlock NAME",
		Short: "Take a lock away from its holder",
		Long: `unlock releases a lock that another process holds, and grants it to the first client that
waits. It shows the holder and asks for a confirmation, unless --force is given.

The holder is not asked. A client of rlock is told by a message, within about two round trips.
If the message is lost, and in Redisson, the next renewal tells the holder, up to a third of
its lease later. Until then it works as if it held the lock: make sure that it is dead, or
that two holders at once do no harm.

EXIT CODES
  0 if the lock was released; 1 if it was free, if the answer was no, or if Redis did not
  confirm; 2 and 69 as in rlock --help.`,
		Args:              oneName,
		ValidArgsFunction: a.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd, func(client *rlock.Client) error { return a.forceUnlock(cmd, client, args[0], force) })
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "do not ask")
	return cmd
}

func (a *app) forceUnlock(cmd *cobra.Command, client *rlock.Client, name string, force bool) error {
	ctx := cmd.Context()
	i, err := client.Inspect(ctx, name)
	if err != nil {
		return err
	}
	if err := view.WriteLock(a.out, i); err != nil {
		return err
	}
	if i.HolderCount == 0 {
		return fault{fmt.Errorf("%s is free", view.Printable(name)), errFailed}
	}
	if !force {
		if !isTerminal(a.in) {
			return wrongUsage(cmd, "no terminal to ask on: use --force")
		}
		fmt.Fprintf(a.err, "\nRelease %s? [y/N] ", view.Printable(name))
		answer, _ := bufio.NewReader(a.in).ReadString('\n')
		if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
			return fault{fmt.Errorf("%s was not released", view.Printable(name)), errFailed}
		}
	}
	released, err := lockOf(client, i).ForceUnlock(ctx)
	switch {
	case err != nil:
		return err
	case !released:
		return fault{fmt.Errorf("%s was released meanwhile", view.Printable(name)), errFailed}
	}
	fmt.Fprintf(a.out, "\n%s is released\n", view.Printable(name))
	return nil
}

// lockOf returns a lock whose ForceUnlock releases all holders.
func lockOf(client *rlock.Client, i inspect.Lock) *rlock.Lock {
	switch {
	case i.Kind == rlock.KindSemaphore:
		return client.NewSemaphore(i.Name, 1) // the number does not matter: all are released
	case i.Kind != inspect.KindReadWrite:
		return client.NewLock(i.Name)
	case len(i.Holders) > 0 && i.Holders[0].Shared:
		return client.NewReadWriteLock(i.Name).Read()
	}
	return client.NewReadWriteLock(i.Name).Write()
}

// isTerminal reports whether a person may be at the other end.
func isTerminal(file *os.File) bool { return term.IsTerminal(file.Fd()) }
