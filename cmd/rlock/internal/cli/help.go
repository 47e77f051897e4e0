package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/go-rlock/rlock/cmd/rlock/internal/address"
)

const rootHelp = `rlock runs commands under distributed locks, and shows the locks, their holders and
their queues. The locks are those of the Go library rlock, and of Redisson in Java: a
service and a script can contend for the same lock.

The server is given by --url, by --addr and related flags, or by the variables in
brackets. A Cluster is detected. Without any of them it is ` + address.Default + `.

EXIT CODES
    0   success
    1   failure: see each command
    2   the arguments are wrong
    69  Redis cannot be reached, or refuses
  rlock exec and rlock doctor have more.`

// usage writes how a command is called, which follows its description in the help. The flags of the
// connection are described once, by "rlock --help".
func usage(cmd *cobra.Command) error {
	var text strings.Builder
	text.WriteString("Usage:\n")
	if cmd.Runnable() {
		fmt.Fprintf(&text, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&text, "  %s COMMAND [flags]\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&text, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		text.WriteString("\nCommands:\n")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() || c.Name() == "help" {
				fmt.Fprintf(&text, "  %-*s  %s\n", cmd.NamePadding(), c.Name(), c.Short)
			}
		}
	}
	own, connection := pflag.NewFlagSet("", pflag.ContinueOnError), make(map[string]*pflag.FlagSet)
	own.SortFlags = cmd.Flags().SortFlags
	all := func(f *pflag.Flag) {
		group := address.GroupOf(f)
		if group == "" {
			own.AddFlag(f)
			return
		}
		if connection[group] == nil {
			connection[group] = pflag.NewFlagSet("", pflag.ContinueOnError)
			connection[group].SortFlags = false
		}
		connection[group].AddFlag(f)
	}
	cmd.LocalFlags().VisitAll(all)
	cmd.InheritedFlags().VisitAll(all)
	fmt.Fprintf(&text, "\nFlags:\n%s", own.FlagUsages())
	switch {
	case cmd.HasParent() && len(connection) > 0:
		text.WriteString("\nThe server is given by --url, --addr and other flags, or by variables: see rlock --help.\n")
	case len(connection) > 0:
		for _, group := range address.Groups {
			fmt.Fprintf(&text, "\n%s:\n%s", group, connection[group].FlagUsages())
		}
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&text, "\n%q has more about a command.\n", cmd.CommandPath()+" COMMAND --help")
	}
	_, err := fmt.Fprint(cmd.OutOrStderr(), text.String())
	return err
}

// strictHelp makes "rlock help COMMAND" fail for an unknown command. That of cobra shows the usage,
// and succeeds.
func strictHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	at := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == "help" })
	help := root.Commands()[at]
	help.Run, help.RunE = nil, func(_ *cobra.Command, args []string) error {
		about, _, err := root.Find(args)
		if err != nil {
			return err
		}
		about.InitDefaultHelpFlag()
		about.InitDefaultVersionFlag()
		return about.Help()
	}
}
