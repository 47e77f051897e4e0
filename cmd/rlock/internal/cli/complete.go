package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

const (
	completeTime  = time.Second // the user has pressed a key, and waits
	mostCompleted = 50
)

// names completes the name of a lock that is held.
func (a *app) names(cmd *cobra.Command, args []string, begun string) (names []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeTime)
	defer cancel()
	_ = a.with(cmd, func(client *rlock.Client) error {
		for name, err := range inspect.Of(client).Locks(ctx, literal(begun)+"*") {
			if err != nil {
				return err
			}
			if names = append(names, name); len(names) == mostCompleted {
				break
			}
		}
		return nil
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

// literal returns the pattern that matches the text alone.
func literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(text)
}
