// Package report prints the results of a run of torture, as Markdown and as JSON. It only
// counts and writes.
package report
