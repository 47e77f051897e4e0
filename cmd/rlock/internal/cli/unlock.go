package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/go-rlock/rlock/cmd/rlock/internal/survey"
	"github.com/go-rlock/rlock/cmd/rlock/internal/view"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

func (a *app) unlock() *cobra.Command {
	var (
		force               bool
		process, waiterName string
		grace               seconds
	)
	cmd := &cobra.Command{
		Use:   "unlock [flags] [NAME | PATTERN]",
		Short: "Take locks away from their holders",
		Long: `unlock releases a lock that another process holds, and grants it to the first client that
waits. It shows the holder and asks for a confirmation, unless --force is given. It releases
the holder that it has shown, and no other one that has the lock by then.

A PATTERN is a glob, as for ls: quote it. A backslash before one of * ? [ makes that a
character of a name. All locks that match are listed, and released after one confirmation.

--process ID selects the locks that one process holds, by its name as ls and show print it
("orders@host[4711]") or by the beginning of an OWNER, at least eight characters. Without a
NAME or PATTERN these are all that it holds. A lock that other processes hold as well, such
as a read lock, is left alone: release it by its name.

--for WAITER lets one waiter take the lock over. WAITER is its process as show prints it, the
text of its --note or WithNote, or the beginning of its TICKET, at least eight characters. The
holder is told, and loses the lock after --grace, at once by default; a holder that does not
answer, or is Redisson's, loses it two seconds later. If the waiter leaves before, the holder
goes on. A reader cannot be let through.

Without --for the holder is not asked. A client of rlock is told by a message, within about two
round trips. If the message is lost, and in Redisson, the next renewal tells the holder, up to a
third of its lease later. Until then it works as if it held the lock: make sure that it is dead,
or that two holders at once do no harm.

EXIT CODES
  0 if all holders that were shown are released, or the waiter was let through; 1 if none was
  held or some were left alone, if the answer was no, if Redis did not confirm, or if the name
  is a key with other data; 2 and 69 as in rlock --help.`,
		Example: `  rlock unlock orders:42
  rlock unlock 'orders:*'
  rlock unlock --for 'orders@host-7[4711]' --grace 30 orders:42
  rlock unlock --process 'orders@host-7[4711]'`,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     a.names,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && process != "" {
				return nil
			}
			if err := oneName(cmd, args); err != nil || waiterName == "" {
				return err
			}
			if isPattern(args[0]) {
				return wrongUsage(cmd, "--for needs the NAME of one lock, and %q is a pattern", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("process") && len(process) < shortestOwner {
				return wrongUsage(cmd, "--process %q: at least %d characters", process, shortestOwner)
			}
			if cmd.Flags().Changed("grace") && waiterName == "" {
				return wrongUsage(cmd, "--grace needs --for")
			}
			return a.with(cmd, func(client *rlock.Client) error {
				if waiterName != "" {
					return a.letThrough(cmd, client, args[0], waiterName, time.Duration(grace), force)
				}
				if process == "" && !isPattern(args[0]) {
					return a.unlockOne(cmd, client, args[0], force)
				}
				return a.unlockMany(cmd, client, strings.Join(args, ""), process, force)
			})
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "do not ask")
	cmd.Flags().StringVar(&process, "process", "", "only the locks that the process `ID` holds")
	cmd.Flags().StringVar(&waiterName, "for", "", "let `WAITER` take the lock over")
	cmd.Flags().Var(&grace, "grace", "with --for: `seconds` that the holder has left (\"10\", or \"1m\")")
	cmd.Args = cobra.MatchAll(exclusive(cmd, "for", "process"), cmd.Args)
	return cmd
}

// shortestOwner is the least number of characters by which an owner may be named: the first group
// of its UUID, which ls and show print.
const shortestOwner = 8

// isPattern reports whether the argument is a glob and not a name. An argument with an escaped
// character is a glob, too: as one it matches the name without the escape.
func isPattern(name string) bool { return strings.ContainsAny(name, `*?[\`) }

// unlockOne releases the lock of one name.
func (a *app) unlockOne(cmd *cobra.Command, client *rlock.Client, name string, force bool) error {
	i, err := inspect.Of(client).Lock(cmd.Context(), name)
	if err != nil {
		return err
	}
	if err := view.WriteLock(a.out, i); err != nil {
		return err
	}
	if i.HolderCount == 0 {
		return fault{fmt.Errorf("%s is free", view.Printable(name)), errFailed}
	}
	if err := a.confirmRelease(cmd, view.Printable(name), force); err != nil {
		return err
	}
	fmt.Fprintln(a.out)
	return a.take(cmd.Context(), client, i)
}

// unlockMany releases the locks of a pattern that the process holds, or any process if that is "".
// It goes on after a lock that it cannot release.
func (a *app) unlockMany(cmd *cobra.Command, client *rlock.Client, pattern, process string, force bool) error {
	found, failed := survey.Held(cmd.Context(), client, pattern)
	if failed != nil && len(found) == 0 {
		return failed
	}
	if process != "" {
		found = slices.DeleteFunc(found, func(i inspect.Lock) bool {
			return !slices.ContainsFunc(i.Holders, func(h inspect.Holder) bool { return isOf(h.Owner, h.Process, process) })
		})
	}
	var all []inspect.Lock
	var shared []error
	for _, i := range found {
		if process != "" && (i.HolderCount > len(i.Holders) || slices.ContainsFunc(i.Holders, func(h inspect.Holder) bool { return !isOf(h.Owner, h.Process, process) })) {
			shared = append(shared, fault{fmt.Errorf("%s was left alone: other processes hold it, too", view.Printable(i.Name)), errFailed})
			continue
		}
		all = append(all, i)
	}
	if len(all) == 0 {
		return errors.Join(append(shared, fault{errors.New("no such lock is held, or none alone"), errFailed}, failed)...)
	}
	table := view.NewTable(a.out)
	for _, i := range all {
		table.Add(i)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	what := "this lock"
	if len(all) > 1 {
		what = fmt.Sprintf("these %d locks", len(all))
	}
	if err := a.confirmRelease(cmd, what, force); err != nil {
		return err
	}
	fmt.Fprintln(a.out)
	errs := append(shared, failed)
	for _, i := range all {
		errs = append(errs, a.take(cmd.Context(), client, i))
	}
	return errors.Join(errs...)
}

// isOf reports whether the id names the owner, which is one of the process p: by its name as it is
// shown, or by what the owner begins with.
func isOf(owner string, p *inspect.Process, id string) bool {
	return view.Owner(owner, p, false) == id || len(id) >= shortestOwner && strings.HasPrefix(owner, id)
}

// confirmRelease asks "Release what?", unless force is set. Any answer but yes is an error.
func (a *app) confirmRelease(cmd *cobra.Command, what string, force bool) error {
	return a.confirm(cmd, "Release "+what, what+": not released", force)
}

// confirm asks the question, unless force is set. Any answer but yes is the error refused.
func (a *app) confirm(cmd *cobra.Command, question, refused string, force bool) error {
	if force {
		return nil
	}
	if !isTerminal(a.in) {
		return wrongUsage(cmd, "no terminal to ask on: use --force")
	}
	fmt.Fprintf(a.err, "\n%s? [y/N] ", question)
	answer, _ := bufio.NewReader(a.in).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return fault{errors.New(refused), errFailed}
	}
	return nil
}

// take releases a lock from the holders that were shown, and says so.
func (a *app) take(ctx context.Context, client *rlock.Client, i inspect.Lock) error {
	name := view.Printable(i.Name)
	switch released, err := inspect.Of(client).ForceUnlock(ctx, i); {
	case err != nil:
		return sorted(err)
	case !released:
		return fault{fmt.Errorf("%s was left alone: no holder that was shown has it any more", name), errFailed}
	}
	fmt.Fprintf(a.out, "%s is released\n", name)
	if more := i.HolderCount - len(i.Holders); more > 0 {
		return fault{fmt.Errorf("%s has more holders, which were not shown: %d", name, more), errFailed}
	}
	return nil
}

// isTerminal reports whether a person may be at the other end.
func isTerminal(file *os.File) bool { return term.IsTerminal(file.Fd()) }
