// Command rlock runs commands under distributed locks in Redis or Valkey, and shows the locks,
// their holders and their queues. See "rlock help", and docs/cli.md.
package main

import (
	"os"

	"github.com/go-rlock/rlock/cmd/rlock/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
