package cli

import (
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-rlock/rlock/cmd/rlock/internal/guard"
	"github.com/go-rlock/rlock/rlock"
)

const (
	defaultLease  = 30 * time.Second
	shortestLease = time.Second
)

func (a *app) exec() *cobra.Command {
	var (
		job                         = guard.Job{Busy: 1, Permits: 1, Log: a.log}
		once                        bool
		wait                        = seconds(guard.Forever)
		read, write, fair, isFenced bool
		permits                     int
		lease, grace, minHold       = seconds(defaultLease), seconds(guard.Forever), seconds(0)
		takeover                    = seconds(guard.Forever)
	)
	cmd := &cobra.Command{
		Use:   "exec [flags] NAME -- COMMAND [ARGUMENT...]",
		Short: "Run a command while a lock is held",
		Long:  execHelp,
		Example: `  rlock exec -n nightly -- ./backup.sh              # skip it if it runs elsewhere
  rlock exec -w 10 -E 75 deploy:web -- make deploy  # wait for ten seconds
  rlock exec -s catalogue -- ./report.sh            # one of many readers
  rlock exec --permits 3 encode -- ./encode.sh "$f" # three at once, over all hosts
  rlock exec --permits 8 --take 4 gpu -- ./train.sh # with four of the eight
  rlock exec -n -E 0 --min-hold 1m nightly -- ./job # one of several hosts runs it
  rlock exec --fenced orders -- sh -c 'echo "$RLOCK_TOKEN"'`,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     a.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := a.config(cmd)
			if err != nil {
				return err
			}
			lease := time.Duration(lease)
			config.Lease = lease
			job.Grace = time.Duration(grace)
			if !cmd.Flags().Changed("grace") {
				job.Grace = min(lease/6, 5*time.Second)
			}
			if longest := lease/2 - guard.Margin(lease); lease < shortestLease {
				return wrongUsage(cmd, "--lease %v is too short to end a command in: at least %v", lease, shortestLease)
			} else if job.Grace < 0 || job.Grace > longest {
				return wrongUsage(cmd, "--grace %v: at most %v with --lease %v, so that there is time to renew it", job.Grace, longest, lease)
			} else if job.Busy < 0 || job.Busy > 255 {
				return wrongUsage(cmd, "-E %d: from 0 to 255", job.Busy)
			}
			if err := checkPermits(cmd, permits, job.Permits); err != nil {
				return err
			}
			job.Wait, job.MinHold, job.Takeover = time.Duration(wait), time.Duration(minHold), time.Duration(takeover)
			if once {
				job.Wait = 0
			}
			job.New = func(c *rlock.Client, name string) *rlock.Lock {
				switch {
				case read:
					return c.NewReadWriteLock(name).Read()
				case write:
					return c.NewReadWriteLock(name).Write()
				case fair:
					return c.NewFairLock(name)
				case permits > 0:
					return c.NewSemaphore(name, permits)
				case isFenced:
					return c.NewFencedLock(name)
				}
				return c.NewLock(name)
			}
			job.Name, job.Command, job.Verbose = args[0], args[1:], a.verbose
			if !cmd.Flags().Changed("note") {
				job.Note = filepath.Base(job.Command[0]) // its arguments may be secret
			}
			a.code = guard.Run(config, job)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVarP(&once, "nonblock", "n", false, "do not wait for the lock")
	flags.VarP(&wait, "timeout", "w", "wait for the lock for at most these `seconds` (\"2.5\", or \"500ms\")")
	flags.IntVarP(&job.Busy, "conflict-exit-code", "E", job.Busy, "exit `code` if the lock is not acquired")
	flags.BoolVarP(&read, "shared", "s", false, "take the read lock of a read-write lock")
	flags.BoolVarP(&write, "exclusive", "x", false, "take the write lock of a read-write lock")
	flags.BoolVar(&fair, "fair", false, "be granted the lock in the order of all waiters")
	flags.BoolVar(&isFenced, "fenced", false, "set RLOCK_TOKEN to a fencing token")
	flags.IntVar(&permits, "permits", 0, "take one of `N` permits of a semaphore: N commands run at once")
	flags.IntVar(&job.Permits, "take", job.Permits, "with --permits: take `K` of them, all or none")
	flags.StringVar(&job.Note, "note", "", "`text` that \"rlock show\" has for the lock (default the name of the command)")
	flags.Var(&lease, "lease", "`seconds` for which the lock stays held after this process dies, or loses Redis (\"10\", or \"1m\")")
	flags.Var(&minHold, "min-hold", "`seconds` for which the lock is held at least, also if the command ends before")
	flags.Var(&takeover, "takeover", "take the lock over: a holder has these `seconds` to end, and then loses the lock")
	flags.Var(&grace, "grace", "`seconds` between TERM and KILL (default a sixth of the lease, 5s at most)")
	cmd.Args = cobra.MatchAll(
		exclusive(cmd, "shared", "exclusive", "fair", "fenced", "permits"),
		exclusive(cmd, "nonblock", "timeout"),
		exclusive(cmd, "nonblock", "takeover"),
		exclusive(cmd, "shared", "takeover"),
		nameAndCommand,
	)
	return cmd
}

// checkPermits refuses a semaphore without a permit, and a command that takes no permit, or more
// than the semaphore has.
func checkPermits(cmd *cobra.Command, permits, take int) error {
	semaphore := cmd.Flags().Changed("permits")
	switch {
	case semaphore && permits < 1:
		return wrongUsage(cmd, "--permits %d: at least 1", permits)
	case !cmd.Flags().Changed("take"):
		return nil
	case !semaphore:
		return wrongUsage(cmd, "--take %d: of how many permits? Use --permits as well", take)
	case take < 1 || take > permits:
		return wrongUsage(cmd, "--take %d: from 1 to %d, the number of --permits", take, permits)
	}
	return nil
}

// seconds is a flag of a time in seconds, or with a unit.
type seconds time.Duration

func (s *seconds) Set(text string) error {
	if number, err := strconv.ParseFloat(text, 64); err == nil && number >= 0 && number < 1e9 {
		*s = seconds(number * float64(time.Second))
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return fmt.Errorf("not a number of seconds")
	}
	*s = seconds(d)
	return nil
}

func (s *seconds) Type() string { return "seconds" }

func (s *seconds) String() string {
	if time.Duration(*s) == guard.Forever {
		return ""
	}
	return time.Duration(*s).String()
}

const execHelp = `exec waits for the lock NAME, runs COMMAND while it is held, and releases it. The command
has the standard input and outputs of rlock and its terminal. No shell is involved:
use sh -c '...' for one.

THE LOCK
  Each exec is an owner of its own: an exec inside the command of another one does not nest
  in its lock. The lease is renewed while the command runs. If rlock dies, others wait for the
  rest of the lease, 30 seconds by default. If Redis does not answer, the command continues
  until the lease is about to end. It is then sent TERM, and KILL after the grace period, at
  least 2 % of the lease before another client can be granted the lock. If Redis reports that
  the lock is gone (rlock unlock --force), KILL follows TERM after at most a second.

ONCE ON SEVERAL HOSTS
  With -n one of the hosts that start a job at the same time runs it, and the others skip it.
  A job that ends before the clock of the last host strikes would run there again: --min-hold
  keeps the lock for that long since it was acquired, also when the command has ended. Choose
  more than the clocks of the hosts differ, and less than the time between two runs. If the
  command fails the lock stays as well. rlock itself ends with the command.
  The others do not wait: those that find the lock taken end before the command has. Where all
  have to wait for the result, as for a migration, leave out -n, and let the command find that
  nothing is left to do.

TAKING OVER
  With --takeover 30 the command comes before all that wait, and the holder is told at once. If
  it still has the lock after 30 seconds its hold ends, and the command runs. A command of exec
  that is taken over from is sent TERM and KILL in that time. A holder that does not answer, as
  one of Redisson, loses the lock two seconds later as by rlock unlock --force: it may still run
  then. A reader (-s) does not take a lock over.

PERMITS
  With --permits N the lock is a semaphore: the commands that run at a time have N permits
  between them, over all hosts. A command takes one, or K with --take K: it begins when it
  has all of them. Waiting commands begin in the order in which they came: one that waits
  for many permits is not overtaken by those that need few. Use the same N everywhere.

THE COMMAND
  It has a process group of its own. TERM, INT, HUP and QUIT are passed on to the group,
  USR1 and USR2 to the command. Processes of the group that outlive the command are ended,
  with TERM and KILL, before the lock is released; a daemon that begins a session of its
  own (setsid) is not. Ctrl-Z does not suspend the command. On Linux the command is killed
  if rlock is killed.

ENVIRONMENT OF THE COMMAND
  RLOCK_NAME   the name of the lock
  RLOCK_TOKEN  with --fenced: a number that is larger than those of all holders before, for
               a resource that refuses writes with a smaller one

EXIT CODES
  The command's own, or 128 and the number of the signal that ended it. Besides:
    1    the lock was not acquired (-E chooses another)
    2    the arguments are wrong
    69   Redis cannot be reached, or refuses
    75   the lock was lost while the command ran
    126  the command cannot be executed
    127  the command was not found`
