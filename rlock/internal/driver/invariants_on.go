//go:build invariants

package driver

// invariants says that the rules are asserted: see invariants.go.
const invariants = true
