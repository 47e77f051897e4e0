// Package scenario defines the measurements: each scenario has a question, its settings, and
// the contenders that can take part.
package scenario
