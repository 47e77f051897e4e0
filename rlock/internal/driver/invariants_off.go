//go:build !invariants

package driver

// invariants says that no rule is asserted: what needs it is not compiled.
const invariants = false
