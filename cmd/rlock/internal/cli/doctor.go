package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/go-rlock/rlock/cmd/rlock/internal/doctor"
	"github.com/go-rlock/rlock/cmd/rlock/internal/guard"
)

func (a *app) doctor() *cobra.Command {
	var asJSON bool
	failOn := doctor.Yellow
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine a server before it is trusted with locks",
		Long: `doctor examines a server: version, role, eviction, persistence, replicas, the state of a
Cluster, pub/sub, the rights of the user, the clock, the time of a round trip, and whether
Redisson uses it. Each finding that is not green has a risk and a remedy.

It may be run against a server in use. To test the rights it writes some keys of a name of
its own, which expire within a second. If the user's rights are limited to names with a
prefix, give that prefix to --prefix.

  green    no risk
  yellow   a risk in some event: a crash, a failover, a full server
  red      locks fail, or may be granted twice, without any such event

EXIT CODES
  0 if all is green, 1 if the worst is yellow, 2 if it is red, or if the arguments are wrong;
  69 if the server cannot be reached. With --fail-on red a yellow finding is 0, too.`,
		Example: `  rlock doctor --url rediss://locks@redis.example:6380 --prefix orders:
  rlock doctor --fail-on red && deploy
  rlock doctor --json | jq -r '.findings[] | select(.level == "red").remedy'`,
		Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := a.config(cmd)
			if err != nil {
				return err
			}
			prefix := config.Prefix
			config.Prefix = "" // doctor reads names of other prefixes, too
			findings := doctor.Examine(cmd.Context(), config, prefix)
			for i := range findings {
				findings[i].Found = forShells.Replace(findings[i].Found)
			}
			switch worst := doctor.Worst(findings); {
			case doctor.IsUnreachable(findings):
				a.code = guard.ExitUnavailable
			case worst >= failOn:
				a.code = int(worst)
			}
			if asJSON {
				encoder := json.NewEncoder(a.out)
				encoder.SetIndent("", "  ")
				return encoder.Encode(report{doctor.Worst(findings), findings})
			}
			return writeFindings(a.out, findings)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	cmd.Flags().TextVar(&failOn, "fail-on", doctor.Yellow, "the `level` from which on the exit code is not 0: yellow or red")
	return cmd
}

// A report is the findings as JSON.
type report struct {
	Level    doctor.Level     `json:"level"`
	Findings []doctor.Finding `json:"findings"`
}

// colours are the colours of the levels in a terminal.
var colours = map[doctor.Level]string{doctor.Green: "\x1b[32m", doctor.Yellow: "\x1b[33m", doctor.Red: "\x1b[31m"}

func writeFindings(out io.Writer, findings []doctor.Finding) error {
	paint := func(_ doctor.Level, text string) string { return text }
	if file, ok := out.(*os.File); ok && isTerminal(file) && os.Getenv("NO_COLOR") == "" {
		paint = func(level doctor.Level, text string) string { return colours[level] + text + "\x1b[0m" }
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.StripEscape)
	for _, f := range findings {
		fmt.Fprintf(w, "%s\t%s\t%s\n", paint(f.Level, fmt.Sprintf("%-6s", f.Level)), f.Check, f.Found)
		if f.Level > doctor.Green {
			fmt.Fprintf(w, "%s\t\trisk: %s\n", paint(f.Level, "      "), f.Risk)
			fmt.Fprintf(w, "%s\t\tremedy: %s\n", paint(f.Level, "      "), f.Remedy)
		}
	}
	return w.Flush()
}
