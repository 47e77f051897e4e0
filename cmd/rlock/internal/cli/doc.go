// Package cli is the commands of rlock: their arguments, their help and their exit codes. The work
// is done in the other packages.
package cli
