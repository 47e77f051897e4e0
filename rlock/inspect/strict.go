//go:build strict

package inspect

// With the build tag "strict", which only tests have, the script is refused a key that it has not
// declared.
func init() { lookScript.BeStrict() }
