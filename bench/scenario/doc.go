// Package scenario says what is measured: each scenario has a question, the
// settings it is asked at, and the contenders that can take part.
package scenario
