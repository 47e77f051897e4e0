package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Errors about arguments. They begin with the command, as in "rlock show: NAME is missing".

// wrongUsage returns an error about the arguments of a command.
func wrongUsage(cmd *cobra.Command, format string, args ...any) error {
	return fault{fmt.Errorf("%s: "+format, append([]any{cmd.CommandPath()}, args...)...), errUsage}
}

// oneName wants the name of a lock and nothing else.
func oneName(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return wrongUsage(cmd, "NAME is missing")
	case 1:
		return nil
	}
	return wrongUsage(cmd, "one NAME is expected, not %d", len(args))
}

// onePattern wants a pattern at most. Several arguments are usually the files that a shell has put
// in place of a pattern.
func onePattern(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return wrongUsage(cmd, "one PATTERN is expected, not %d: quote it", len(args))
	}
	return nil
}

// noArgument wants flags only.
func noArgument(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return wrongUsage(cmd, "no argument is expected, not %q", args[0])
	}
	return nil
}

// nameAndCommand wants the arguments of exec.
func nameAndCommand(cmd *cobra.Command, args []string) error {
	const form = "rlock exec NAME -- COMMAND [ARGUMENT...]"
	switch dash := cmd.ArgsLenAtDash(); {
	case len(args) == 0, dash == 0:
		return wrongUsage(cmd, "NAME is missing: %s", form)
	case dash < 0 && len(args) > 1:
		return noDash(cmd, args)
	case dash > 1:
		return wrongUsage(cmd, "one NAME is expected before --, not %d: %s", dash, form)
	case len(args) == 1:
		return wrongUsage(cmd, "COMMAND is missing: %s", form)
	}
	return nil
}

// noDash returns the error for a command that has no -- before it.
func noDash(cmd *cobra.Command, args []string) error {
	return wrongUsage(cmd, "put -- before the command: rlock exec %s -- %s ...", args[0], args[1])
}

// wrongFlag returns the error for a flag that cannot be read. Behind two arguments of exec the flag
// is likely to be one of the command, which has no -- before it.
func wrongFlag(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.Name() == "exec" && len(args) > 1 && cmd.ArgsLenAtDash() < 0 {
		return noDash(cmd, args)
	}
	return wrongUsage(cmd, "%w", err)
}

// exclusive declares, for completion, that at most one of the flags may be given, and returns the
// check of that.
func exclusive(cmd *cobra.Command, flags ...string) cobra.PositionalArgs {
	cmd.MarkFlagsMutuallyExclusive(flags...)
	return func(cmd *cobra.Command, _ []string) error {
		var given []string
		for _, name := range flags {
			if f := cmd.Flags().Lookup(name); f.Changed {
				given = append(given, dashed(f))
			}
		}
		if last := len(given) - 1; last > 0 {
			return wrongUsage(cmd, "%s and %s exclude each other", strings.Join(given[:last], ", "), given[last])
		}
		return nil
	}
}

// dashed returns a flag as it is usually written.
func dashed(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand
	}
	return "--" + f.Name
}
