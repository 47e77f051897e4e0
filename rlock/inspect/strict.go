//go:build strict

package inspect

// With the build tag "strict", which only tests have, a script is refused a key that it has not
// declared.
func init() {
	for _, s := range lookScripts {
		s.BeStrict()
	}
}
