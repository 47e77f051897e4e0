package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-rlock/rlock/cmd/rlock/internal/view"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// letThrough ends the hold of the lock for one waiter.
func (a *app) letThrough(cmd *cobra.Command, client *rlock.Client, name, waiterName string, grace time.Duration, force bool) error {
	shown, err := inspect.Of(client).Lock(cmd.Context(), name)
	if err != nil {
		return err
	}
	if err := view.WriteLock(a.out, shown); err != nil {
		return err
	}
	printed := view.Printable(name)
	if shown.HolderCount == 0 {
		return fault{fmt.Errorf("%s is free", printed), errFailed}
	}
	waiter, err := waiterOf(shown, waiterName)
	if err != nil {
		return fault{fmt.Errorf("%s: %w", printed, err), errFailed}
	}
	who := view.Waiter(waiter)
	if err := a.confirm(cmd, fmt.Sprintf("Let %s take %s over", who, printed), printed+": no waiter was let through", force); err != nil {
		return err
	}
	fmt.Fprintln(a.out)
	switch err := inspect.Of(client).LetThrough(cmd.Context(), shown, waiter, grace); {
	case errors.Is(err, inspect.ErrNotLetThrough):
		return fault{err, errFailed}
	case err != nil:
		return sorted(err)
	}
	fmt.Fprintf(a.out, "%s: %s was let through\n", printed, who)
	return nil
}

// waiterOf returns the one waiter with that name: a process, a note, or the beginning of a ticket.
func waiterOf(shown inspect.Lock, waiterName string) (inspect.Waiter, error) {
	is := func(w inspect.Waiter) bool {
		return !w.Foreign && (isOf(w.Owner, w.Process, waiterName) || w.Note == waiterName)
	}
	found := slices.DeleteFunc(slices.Clone(shown.Queue), func(w inspect.Waiter) bool { return !is(w) })
	switch {
	case len(shown.Queue) == 0:
		return inspect.Waiter{}, fmt.Errorf("the queue is empty")
	case len(found) == 0:
		return inspect.Waiter{}, fmt.Errorf("no waiter is %q: name a process, a note, or the first %d characters of a ticket, as they are shown", waiterName, shortestOwner)
	case len(found) > 1:
		var all []string
		for _, w := range found {
			all = append(all, w.Owner)
		}
		return inspect.Waiter{}, fmt.Errorf("%d waiters are %q: name one ticket of %s", len(found), waiterName, strings.Join(all, ", "))
	}
	return found[0], nil
}
