package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/go-rlock/rlock/cmd/rlock/internal/address"
	"github.com/go-rlock/rlock/cmd/rlock/internal/guard"
	"github.com/go-rlock/rlock/rlock"
)

// An app is one call of the command.
type app struct {
	in      *os.File
	out     io.Writer
	err     io.Writer
	address address.Flags
	prefix  string
	verbose bool
	code    int // the exit code of a command that did not fail
}

// errUsage is wrapped by errors about the arguments.
var errUsage = errors.New("usage")

// Main runs the command with these arguments, and returns its exit code.
func Main(args []string, in *os.File, out, err io.Writer) int {
	a := &app{in: in, out: out, err: err}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(err)
	failed := root.Execute()
	if failed == nil {
		return a.code
	}
	if text := failed.Error(); strings.HasPrefix(text, "rlock ") { // see wrongUsage
		fmt.Fprintln(err, text)
	} else {
		a.log("%v", failed)
	}
	switch {
	case errors.Is(failed, errFailed):
		return exitFailed
	case errors.Is(failed, errUnavailable):
		return guard.ExitUnavailable
	default: // cobra's own errors are about the arguments, too
		return guard.ExitUsage
	}
}

const exitFailed = 1

var (
	errFailed      = errors.New("failed")
	errUnavailable = errors.New("unavailable")
)

// A fault gives an error the exit code of its sort, and keeps its text.
type fault struct {
	error
	sort error
}

func (f fault) Unwrap() []error { return []error{f.error, f.sort} }

// sorted returns an error of the library as a fault of its sort.
func sorted(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(fault)):
		return err
	case errors.Is(err, address.ErrUsage), errors.Is(err, rlock.ErrInvalidName), errors.Is(err, rlock.ErrInvalidConfig), errors.Is(err, rlock.ErrInvalidLease):
		return fault{err, errUsage}
	case errors.Is(err, rlock.ErrUnconfirmed), errors.Is(err, rlock.ErrWrongType),
		errors.As(err, new(*fs.PathError)): // the output cannot be written
		return fault{err, errFailed}
	}
	return fault{err, errUnavailable}
}

// log writes a line for people.
func (a *app) log(format string, args ...any) {
	text := strings.TrimPrefix(fmt.Sprintf(format, args...), "rlock: ") // the library's errors have it, too
	fmt.Fprintln(a.err, "rlock: "+forShells.Replace(text))
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "rlock",
		Short:         "Locks in Redis and Valkey, from a shell",
		Long:          rootHelp,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	a.address.Add(root.PersistentFlags())
	root.PersistentFlags().StringVar(&a.prefix, "prefix", "", "`text` before the names of locks in Redis: Config.Prefix of the programs")
	root.PersistentFlags().BoolVarP(&a.verbose, "verbose", "v", false, "report progress on the standard error")
	root.Flags().SortFlags, root.PersistentFlags().SortFlags = false, false
	root.AddCommand(a.exec(), a.ls(), a.show(), a.web(), a.unlock(), a.doctor())
	root.SetUsageFunc(usage)
	root.SetFlagErrorFunc(wrongFlag)
	root.SetVersionTemplate("rlock {{.Version}}\n")
	strictHelp(root)
	return root
}

// config returns the configuration of a client.
func (a *app) config(cmd *cobra.Command) (rlock.Config, error) {
	option, err := a.address.Option(cmd.Flags())
	if err != nil {
		return rlock.Config{}, sorted(err)
	}
	logger := slog.New(slog.DiscardHandler)
	if a.verbose {
		logger = slog.New(slog.NewTextHandler(a.err, nil))
	}
	return rlock.Config{Redis: option, Prefix: a.prefix, Logger: logger, LongHold: -1, LongWait: -1}, nil // exec waits, and holds, for long by design
}

// with calls use with a client.
func (a *app) with(cmd *cobra.Command, use func(client *rlock.Client) error) error {
	config, err := a.config(cmd)
	if err != nil {
		return err
	}
	client, err := address.Connect(cmd.Context(), config)
	if err != nil {
		return sorted(err)
	}
	defer client.Close()
	return sorted(use(client))
}
