//go:build !invariants

package driver

// invariants is false: the code that asserts the rules is not compiled.
const invariants = false
