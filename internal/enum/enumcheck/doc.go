// Package enumcheck reads the source of packages for tests, and says what their enums lack.
//
// An enum is a type with a block of constants of its own. A value that a switch does not name would silently be taken for
// another one. So this project asks two things of the enums of its product:
//
//   - A switch over an enum panics by default, with the value's name. It names the values for which there is nothing to do.
//   - An enum of numbers has a method String that returns the constant's identifier, for the panic, for messages and for traces.
//
// A reply of a server, and a setting of a user, is checked where it is read, before it becomes a value of an enum. So no reply
// ends a process.
//
// The check is one of the text, by go/parser alone: a switch is one over an enum if a case is a constant of it. It does not
// see a switch without a tag, whose cases are conditions.
package enumcheck
