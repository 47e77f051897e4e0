package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-rlock/rlock/cmd/rlock/internal/address"
	"github.com/go-rlock/rlock/cmd/rlock/internal/child"
	"github.com/go-rlock/rlock/cmd/rlock/internal/view"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// The exit codes of Run beside those of the command.
const (
	ExitUsage       = 2  // the arguments are wrong
	ExitUnavailable = 69 // Redis cannot be reached, or refuses (EX_UNAVAILABLE)
	ExitLost        = 75 // the lock was lost, and the command was ended (EX_TEMPFAIL)

	// As in a shell:
	exitNotExecutable = 126 // the command cannot be executed
	exitNotFound      = 127 // the command does not exist
	exitSignal        = 128 // to which the number of the signal that ended the command is added
)

// Forever is a wait without end.
const Forever time.Duration = -1

// A Job is a command and the lock that it needs.
type Job struct {
	Name     string
	New      func(client *rlock.Client, name string) *rlock.Lock
	Note     string        // the note of the lock: the job, for other users of the lock
	Permits  int           // the number of permits to take of a semaphore; 1 for any other lock
	MinHold  time.Duration // the least time for which the lock stays; 0 for as long as the command runs
	Takeover time.Duration // the grace of the holders that the lock is taken over from; negative for a job that waits for its turn
	Wait     time.Duration // the longest wait for the lock: 0 is one attempt, Forever has no end
	Grace    time.Duration // the time between TERM and KILL
	Busy     int           // the exit code if the lock is not acquired
	Command  []string      // the program and its arguments
	Verbose  bool          // log all events, not only failures
	Log      func(format string, args ...any)
}

// Margin returns how long before the end of the validity of a lease the command is killed.
func Margin(lease time.Duration) time.Duration { return lease / 50 }

// Run runs the job and returns the exit code of this process. It ends when the command and all
// processes of its group have ended and the lock is released. It logs failures to Log. A process
// runs one job.
func Run(config rlock.Config, job Job) int {
	signals := make(chan os.Signal, 16)
	for _, s := range child.Forwarded {
		if !signal.Ignored(s) { // under nohup the command is to ignore SIGHUP, too
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	// Otherwise a line for a standard error without a reader would end this process, and leave
	// behind the processes that the command has started.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	r := &run{Job: job, lease: config.Lease, signals: signals}
	hold, client, code := r.acquire(config)
	if hold == nil {
		return code
	}
	code = r.hold(hold)
	if err := hold.Release(context.Background()); errors.Is(err, rlock.ErrLost) {
		r.lose(err)
	} else if err != nil && r.lost == nil {
		r.Log("%v", err)
	}
	if r.lost != nil {
		select {
		case <-r.told:
		case <-time.After(stubborn):
		}
		return ExitLost // without waiting for connections that may be dead
	}
	_ = client.Close()
	return code
}

// A run is one call of Run. It belongs to its goroutine.
type run struct {
	Job
	lease   time.Duration
	signals chan os.Signal
	lost    error         // the reason if the lock is lost, or about to be
	told    chan struct{} // closed when the loss is logged, nil while there is none
}

// An outcome is the result of an attempt to get the lock.
type outcome struct {
	hold   *rlock.Hold
	client *rlock.Client
	err    error
}

// acquire waits for the lock, or for a signal that ends the wait. Without a hold it returns the
// exit code.
func (r *run) acquire(config rlock.Config) (*rlock.Hold, *rlock.Client, int) {
	begin := time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	landed := make(chan outcome, 1)
	go func() { landed <- r.lock(ctx, config) }()
	var by os.Signal
	for {
		select {
		case by = <-r.signals:
			cancel()
		case o := <-landed:
			if by != nil {
				r.giveUp(o)
				return nil, nil, exitSignal + child.Number(by)
			}
			if o.err != nil {
				code := r.explain(ctx, o)
				r.giveUp(o)
				return nil, nil, code
			}
			if r.Verbose {
				r.Log("%s: acquired after %v", r.Name, time.Since(begin).Round(time.Millisecond))
			}
			return o.hold, o.client, 0
		}
	}
}

func (r *run) lock(ctx context.Context, config rlock.Config) (o outcome) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends logHolder, too
	if r.Verbose {
		config.Observer = &rlock.Observer{Waiting: func(context.Context, rlock.WaitingInfo) {
			go r.logHolder(ctx, o.client)
		}}
	}
	if o.client, o.err = address.Connect(ctx, config); o.err != nil {
		return o
	}
	options := []rlock.AcquireOption{rlock.WithPermits(r.Permits), rlock.WithMinHold(r.MinHold), rlock.WithNote(r.Note)}
	if r.Wait >= 0 {
		options = append(options, rlock.WithWait(r.Wait))
	}
	if r.Takeover >= 0 {
		options = append(options, rlock.WithTakeover(r.Takeover))
	}
	o.hold, o.err = r.New(o.client, r.Name).Acquire(ctx, options...)
	return o
}

// logHolder logs the holder of the lock.
func (r *run) logHolder(ctx context.Context, client *rlock.Client) {
	if i, err := inspect.Of(client).Lock(ctx, r.Name); err == nil {
		r.Log("%s", view.Summary(i))
	}
}

// giveUp closes the client, which releases a hold that was acquired.
func (r *run) giveUp(o outcome) {
	if o.client != nil {
		_ = o.client.Close()
	}
}

// explain logs why there is no lock, and returns the exit code.
func (r *run) explain(ctx context.Context, o outcome) int {
	err := o.err
	switch {
	case errors.Is(err, rlock.ErrNotAcquired):
		if r.Verbose {
			r.logHolder(ctx, o.client)
		}
		return r.Busy
	case errors.Is(err, rlock.ErrInvalidName), errors.Is(err, rlock.ErrInvalidLease), errors.Is(err, rlock.ErrInvalidConfig), errors.Is(err, rlock.ErrWrongType):
		r.Log("%v", err)
		return ExitUsage
	}
	r.Log("%v", err)
	return ExitUnavailable
}

// hold runs the command, and returns its exit code.
func (r *run) hold(hold *rlock.Hold) int {
	p, err := child.Start(r.Command, environment(os.Environ(), hold, r.Name))
	switch {
	case errors.Is(err, child.ErrNotFound):
		r.Log("%v", err)
		return exitNotFound
	case err != nil:
		r.Log("%v", err)
		return exitNotExecutable
	}
	return r.watch(hold, p).ExitCode()
}

// environment returns the environment of the command: that of this process, with the lock's name,
// and the fencing token if there is one.
func environment(own []string, hold *rlock.Hold, name string) (env []string) {
	for _, entry := range own {
		if !strings.HasPrefix(entry, "RLOCK_NAME=") && !strings.HasPrefix(entry, "RLOCK_TOKEN=") {
			env = append(env, entry)
		}
	}
	env = append(env, "RLOCK_NAME="+name)
	if token, err := hold.Token(); err == nil {
		env = append(env, "RLOCK_TOKEN="+strconv.FormatUint(token, 10))
	}
	return env
}

// lose notes, once, that the lock is lost. It does not wait for the log, which may be a pipe that
// is full.
func (r *run) lose(why error) {
	if r.lost != nil {
		return
	}
	r.lost, r.told = why, make(chan struct{})
	go func() {
		defer close(r.told)
		r.Log("%s: the lock is lost, and the command is ended: %v", r.Name, why)
	}()
}

// errSilent is the reason to end a command before its lease has ended.
var errSilent = fmt.Errorf("%w: Redis has not confirmed the lease in time", rlock.ErrLost)
