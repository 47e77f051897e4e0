//go:build !unix

package redistest

import "os"

// No process can be suspended here: os.Process.Signal refuses these.
var suspend, resume = os.Interrupt, os.Interrupt
